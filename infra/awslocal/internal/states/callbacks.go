package states

import (
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

type (
	sendTaskSuccessInput struct {
		TaskToken string
		Output    *string
	}
	sendTaskFailureInput   struct{ TaskToken, Error, Cause string }
	sendTaskHeartbeatInput struct{ TaskToken string }
)

// findToken returns the flow whose task waits for a token. If the token was used, or its task has timed out or was
// aborted, findToken returns TaskTimedOut.
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

// sendTaskSuccess completes the task of a token with an output. The callback may arrive before the answer to the call
// that sent the token.
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

// sendTaskFailure fails the task of a token.
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

// sendTaskHeartbeat restarts the heartbeat timer of a task. It does not change the task's timeout.
func (m *Model) sendTaskHeartbeat(now time.Time, in *sendTaskHeartbeatInput) (any, *wire.Error) {
	f, err := m.findToken(in.TaskToken)
	if err != nil {
		return nil, err
	}
	f.restartHeartbeat(now)
	m.setAlarm(f)
	m.note(executionKey, f.x.serial)
	return struct{}{}, nil
}
