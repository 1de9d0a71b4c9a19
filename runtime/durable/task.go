package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// task is the form of a token in an event, under the key "$task".
type task struct {
	Token string `json:"token"`
	Name  string `json:"name"`
	// State is the name of the task's state. It is the default for Name.
	State            string    `json:"state"`
	Execution        string    `json:"execution"`
	EnteredAt        time.Time `json:"enteredAt"`
	TimeoutSeconds   int       `json:"timeoutSeconds"`
	HeartbeatSeconds int       `json:"heartbeatSeconds"`
}

// taskKey is the key of a task's token in an event.
const taskKey = "$task"

// errTask is wrapped by the errors of events with an invalid task.
var errTask = errors.New("wrong $task")

// heartbeatSecondsMin is the shortest heartbeat interval that an instance can meet. The instance sends a heartbeat
// every third of the interval, and queues delay messages by whole seconds.
const heartbeatSecondsMin = 3

// taskSecondsMax is the longest timeout of a task (Amazon States Language, TimeoutSeconds).
const taskSecondsMax = 99_999_999

// tokenBytesMax is the longest token of a task (Step Functions API Reference, SendTaskSuccess).
const tokenBytesMax = 2048

// tokenOf returns the token in the event, or nil if it has none. If it returns both a token and an error, the token
// serves only to fail its task.
func tokenOf(d Delivery) (*instances.Token, error) {
	if !bytes.Contains([]byte(d.Body), []byte(taskKey)) {
		return nil, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(d.Body), &keys); err != nil || keys[taskKey] == nil {
		return nil, nil //nolint:nilerr // Decode rejects a body that is not an event.
	}
	var form task
	decoder := json.NewDecoder(bytes.NewReader(keys[taskKey]))
	decoder.DisallowUnknownFields()
	wrong := decoder.Decode(&form)
	if wrong != nil {
		form, wrong = partialTask(keys[taskKey])
	}
	if wrong != nil && form.Token == "" {
		return nil, wrong
	}
	if form.Name == "" {
		form.Name = form.State
	}
	if form.Token == "" || len(form.Token) > tokenBytesMax {
		return nil, fmt.Errorf("%w: expected under \"token\" 1 to %d bytes ($$.Task.Token), got %d", errTask, tokenBytesMax, len(form.Token))
	}
	hash := sha256.Sum256([]byte(form.Token))
	if form.EnteredAt.IsZero() {
		form.EnteredAt = d.SentAt
	}
	token := &instances.Token{
		Key: hex.EncodeToString(hash[:8]), Value: instances.Secret(form.Token), Name: form.Name, Execution: form.Execution,
		EnteredAt: form.EnteredAt.UTC().Truncate(time.Millisecond), TimeoutSeconds: form.TimeoutSeconds, HeartbeatSeconds: form.HeartbeatSeconds,
	}
	if wrong == nil {
		wrong = form.check(d.SentAt)
	}
	return token, wrong
}

// taskKeyBytesMax is the longest key that an error quotes: a longer one may be a misplaced token.
const taskKeyBytesMax = 32

// partialTask reads at least the token and the execution of an invalid task, so that the task can be failed. The
// error names the wrong keys but no values, because a value may be the token.
func partialTask(body json.RawMessage) (form task, err error) {
	var keys map[string]json.RawMessage
	var mismatch *readjson.Error
	if errors.As(readjson.Unmarshal(body, &keys), &mismatch) {
		return form, fmt.Errorf("%w: expected an object with the key token and, if need be, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds, got %s", errTask, mismatch.Got)
	}
	expected := map[string]any{
		"token": &form.Token, "name": &form.Name, "state": &form.State, "execution": &form.Execution,
		"enteredAt": &form.EnteredAt, "timeoutSeconds": &form.TimeoutSeconds, "heartbeatSeconds": &form.HeartbeatSeconds,
	}
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch into, known := expected[key]; {
		case !known && len(key) > taskKeyBytesMax:
			wrong = append(wrong, fmt.Sprintf("unknown key of %d bytes", len(key)))
		case !known:
			wrong = append(wrong, fmt.Sprintf("unknown key %q", key))
		case errors.As(readjson.Unmarshal(keys[key], into), &mismatch):
			mismatch.Key = key
			if key == "enteredAt" {
				mismatch.Expected = "a time such as $$.State.EnteredTime"
			}
			wrong = append(wrong, mismatch.Error())
		}
	}
	return form, fmt.Errorf("%w: %s; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds", errTask, strings.Join(wrong, "; "))
}

// enteredAfterMax is how far a task's enteredAt may be after the time when its event was sent. It allows for clock
// skew.
const enteredAfterMax = 24 * time.Hour

// executionBytesMax is the longest ARN of an execution (Step Functions API Reference, GetExecutionHistory).
const executionBytesMax = 256

// check returns an error if a task with a readable token is invalid. sentAt is when its event was sent, zero if
// unknown.
func (f *task) check(sentAt time.Time) error {
	switch {
	case f.Name == "" || len(f.Name) > statechart.EventNameBytesMax:
		return fmt.Errorf("%w: expected under \"name\" or \"state\" a name of 1 to %d bytes, such as $$.State.Name, got %d", errTask, statechart.EventNameBytesMax, len(f.Name))
	case len(f.Execution) > executionBytesMax:
		return fmt.Errorf("%w: expected under \"execution\" an ARN of at most %d bytes ($$.Execution.Id), got %d", errTask, executionBytesMax, len(f.Execution))
	case f.TimeoutSeconds < 0 || f.HeartbeatSeconds < 0:
		return fmt.Errorf("%w: expected no negative seconds, got a timeout of %d and a heartbeat of %d", errTask, f.TimeoutSeconds, f.HeartbeatSeconds)
	case !sentAt.IsZero() && f.EnteredAt.Sub(sentAt) > enteredAfterMax:
		return fmt.Errorf("%w: expected enteredAt ($$.State.EnteredTime) no later than the event was sent, at %s, got %s", errTask, sentAt.UTC().Format(time.RFC3339), f.EnteredAt.UTC().Format(time.RFC3339))
	case f.TimeoutSeconds > taskSecondsMax || f.HeartbeatSeconds > taskSecondsMax:
		return fmt.Errorf("%w: expected at most %d seconds, as Step Functions does, got a timeout of %d and a heartbeat of %d", errTask, taskSecondsMax, f.TimeoutSeconds, f.HeartbeatSeconds)
	case f.HeartbeatSeconds > 0 && f.HeartbeatSeconds < heartbeatSecondsMin:
		return fmt.Errorf("%w: expected heartbeatSeconds of at least %d, as a heartbeat takes its way through queues, got %d", errTask, heartbeatSecondsMin, f.HeartbeatSeconds)
	default:
		return nil
	}
}

// checkWaitName returns an error if a chart answers tasks, but no task of that name. The task would wait until its
// timeout or the end of the instance. A chart without answers, or with answers chosen at run time, accepts every name.
func checkWaitName(name string, machines ...Machine) error {
	var names []string
	for _, machine := range machines {
		resolves := machine.Describe().Resolves
		if len(resolves) == 0 || slices.Contains(resolves, name) {
			return nil
		}
		for _, known := range resolves {
			if !slices.Contains(names, known) {
				names = append(names, known)
			}
		}
	}
	return fmt.Errorf("%w: expected under \"name\" or \"state\" a name under which chart %s answers (%s), got %q: correct the name, or add a Resolution to the chart",
		errTask, machines[0].ID(), strings.Join(names, ", "), name)
}

// AcceptTask checks an event with a Step Functions task token before it is queued. Fails with ErrUnknownMachine, or as
// Machine.Decode does.
func (m *Machines) AcceptTask(id instances.ID, body []byte) error {
	if _, err := m.Lookup(id.Machine); err != nil {
		return err
	}
	token, err := tokenOf(Delivery{Body: string(body)})
	if err == nil && token == nil {
		err = fmt.Errorf("%w: expected the key %s with the task's token", errTask, taskKey)
	}
	if err == nil {
		err = checkWaitName(token.Name, m.byID[id.Machine]...)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", statechart.ErrPayload, err)
	}
	if eventHead(body).Type == WaitEvent {
		return nil
	}
	_, _, err = m.byID[id.Machine].decode(body)
	return err
}

// failParked fails the task of an event that is about to be parked, because no instance would answer the task. It does
// nothing if the instance holds the task's token from an earlier event.
func (l *Loop) failParked(ctx context.Context, d Delivery, reason error, held []instances.Token) error {
	token, _ := tokenOf(d)
	if token == nil || l.ports.Tokens == nil || slices.ContainsFunc(held, func(k instances.Token) bool { return k.Key == token.Key }) {
		return nil // There is no task, there is no client to fail it with, or the instance will answer it.
	}
	err := l.ports.Tokens.Answer(ctx, *token, instances.Answer{Error: ErrorParked, Cause: cut(reason.Error(), causeBytesMax)}, d.ReceiveCount > 1)
	if errors.Is(err, ErrExpired) {
		return nil
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrDenied) && d.ReceiveCount >= l.config.AbandonedMax {
		// Park the event although its task cannot be failed. The task waits until it times out.
		l.config.Logger.ErrorContext(ctx, "cannot fail the task of a parked event", "instance", d.Group, "message_id", d.MessageID, "error", err)
		return nil
	}
	return err
}
