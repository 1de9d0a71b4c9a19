package states

import (
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

type (
	sendTaskSuccessInput struct {
		TaskToken string
		Output    *string
	}
	sendTaskFailureInput   struct{ TaskToken, Error, Cause string }
	sendTaskHeartbeatInput struct{ TaskToken string }
)

// findToken finds the flow whose task waits for a token. A token that was used, or whose
// task timed out or was aborted, has timed out.
func (m *Model) findToken(token string) (*flow, *wire.Error) {
	if err := required("taskToken", token); err != nil {
		return nil, err
	}
	serial, ok := m.tokenSerial(token)
	if !ok {
		return nil, wire.Errorf("InvalidToken", "Invalid Token: 'Invalid token'")
	}
	f, ok := m.tokens[serial]
	if !ok {
		return nil, wire.Errorf("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
	}
	return f, nil
}

// sendTaskSuccess ends the task of a token with an output. It may come before the call that
// carried the token has answered.
func (m *Model) sendTaskSuccess(now time.Time, in *sendTaskSuccessInput) (any, *wire.Error) {
	if in.Output == nil {
		return nil, required("output", "")
	}
	f, err := m.findToken(in.TaskToken)
	if err != nil {
		return nil, err
	}
	output, invalid := readPayload(*in.Output)
	switch {
	case invalid != nil:
		return nil, wire.Errorf("InvalidOutput", "Invalid Output: '%v'", invalid)
	case output.tooLarge():
		return nil, validation("1 validation error detected: Value at 'output' failed to satisfy constraint: Member must have length less than or equal to %d, nested at most %d deep", payloadBytesMax, nestingMax)
	}
	r := run{m: m, x: f.x, now: now}
	r.taskSucceeded(f, output)
	r.settle()
	return struct{}{}, nil
}

// sendTaskFailure ends the task of a token with a failure.
func (m *Model) sendTaskFailure(now time.Time, in *sendTaskFailureInput) (any, *wire.Error) {
	f, err := m.findToken(in.TaskToken)
	switch {
	case err != nil:
		return nil, err
	case utf8.RuneCountInString(in.Error) > 256:
		return nil, validation("1 validation error detected: Value at 'error' failed to satisfy constraint: Member must have length less than or equal to 256")
	case utf8.RuneCountInString(in.Cause) > 32768:
		return nil, validation("1 validation error detected: Value at 'cause' failed to satisfy constraint: Member must have length less than or equal to 32768")
	}
	r := run{m: m, x: f.x, now: now}
	r.taskEnded(f, "Failed", &Failure{Error: in.Error, Cause: in.Cause})
	r.settle()
	return struct{}{}, nil
}

// sendTaskHeartbeat starts the clock of a task's heartbeats anew; its time-out stays as it
// was.
func (m *Model) sendTaskHeartbeat(now time.Time, in *sendTaskHeartbeatInput) (any, *wire.Error) {
	f, err := m.findToken(in.TaskToken)
	if err != nil {
		return nil, err
	}
	f.beat(now)
	m.setAlarm(f)
	m.note(executionKey, f.x.serial)
	return struct{}{}, nil
}
