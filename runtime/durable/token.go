package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Secret is a text that no log, error or front end shows: formatted in any way, it is
// "[secret]". Only its JSON form, in which it is stored, has it.
type Secret string

// String returns "[secret]".
func (Secret) String() string { return "[secret]" }

// LogValue returns "[secret]".
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// Format writes "[secret]".
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }

// Reveal returns the text itself, for the call that needs it.
func (s Secret) Reveal() string { return string(s) }

// Token is a Step Functions task that waits for an instance, which holds its callback token under a
// name.
type Token struct {
	// Key tells the token from all others of the instance: a hash of Value.
	Key   string `json:"key"`
	Value Secret `json:"value"`
	// Name is the name under which the chart answers: by default that of the task's state.
	Name string `json:"name"`
	// Execution is the ARN of the execution, empty if the task did not tell it.
	Execution string `json:"execution,omitempty"`
	// EnteredAt is when the execution entered the task's state; if the task did not tell, when its
	// event was sent.
	EnteredAt time.Time `json:"entered_at"`
	// TimeoutSeconds and HeartbeatSeconds are those of the task's state; zero means none.
	TimeoutSeconds   int `json:"timeout_seconds,omitempty"`
	HeartbeatSeconds int `json:"heartbeat_seconds,omitempty"`
	// Answer is what the task is to be told, nil while it has to wait. It is committed before it is
	// given; a token that has been answered is forgotten.
	Answer *Answer `json:"answer,omitempty"`
}

// LogValue returns the token's name and key.
func (k Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", k.Name), slog.String("key", k.Key))
}

// Answer ends the wait of a task: with Output or, if Error is set, with a failure.
type Answer struct {
	// Output is the JSON object {"outcome", "state", "tags", "output"}.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}

// AnswerBytesMax is the longest output of a task (Step Functions Developer Guide, "Service quotas").
const AnswerBytesMax = 256 << 10

// The errors with which tasks fail that a chart has not answered so.
const (
	// ErrorOutputTooLarge fails a task whose answer is longer than AnswerBytesMax.
	ErrorOutputTooLarge = "Settle.OutputTooLarge"
	// ErrorParked fails a task whose event was parked.
	ErrorParked = "Settle.Parked"
	// ErrorEnded fails a task when the instance ends, or has ended, without an answer for it.
	ErrorEnded = "Settle.Ended"
)

// ErrExpired is returned by Tokens when a task does not wait any more: it has timed out, or its
// execution has ended.
var ErrExpired = errors.New("the task does not wait any more")

// Tokens answers Step Functions tasks. It is called with tokens that instances hold.
type Tokens interface {
	// Answer ends the wait of the task. repeat says that an earlier call may have taken effect; then
	// ErrExpired means that none has. Any other error leaves open whether it has.
	Answer(ctx context.Context, token Token, answer Answer, repeat bool) error
	// Heartbeat tells that the task is still worked on. Fails with ErrExpired.
	Heartbeat(ctx context.Context, token Token) error
}

// The event types of the bridge.
const (
	// WaitEvent is the type of an event that does nothing but hand over a task's token: the chart
	// does not see it.
	WaitEvent = statechart.ReservedPrefix + "wait"
	// TokenExpired is the type of the event that a chart gets, if it declares it, when a task that
	// waited for it has timed out or its execution has ended: {"name", "execution"}.
	TokenExpired = "token.expired"
	// tendEvent asks the loop to look after a token: {"token": key, "count"}.
	tendEvent = statechart.ReservedPrefix + "token"
	// expiredEvent tells the loop that an answer came too late: {"name", "execution"}.
	expiredEvent = statechart.ReservedPrefix + "token.expired"
)

// tend is the kind of an effect by which an instance looks after a token: Name is its key.
const tend statechart.EffectKind = "tend"

// task is the form of a token in an event, under the key "$task".
type task struct {
	Token string `json:"token"`
	Name  string `json:"name"`
	// State is the name of the task's state, which serves as Name if that is missing.
	State            string    `json:"state"`
	Execution        string    `json:"execution"`
	EnteredAt        time.Time `json:"enteredAt"`
	TimeoutSeconds   int       `json:"timeoutSeconds"`
	HeartbeatSeconds int       `json:"heartbeatSeconds"`
}

// taskKey is the key of an event under which it hands over a task's token.
const taskKey = "$task"

// errTask is wrapped by the errors of events whose task is not what it should be.
var errTask = errors.New("wrong $task")

// heartbeatSecondsMin is the shortest interval of heartbeats that an instance can keep up: a beat every
// third of it, in whole seconds.
const heartbeatSecondsMin = 3

// taskSecondsMax is the longest time that Step Functions takes for a task (Amazon States Language, TimeoutSeconds).
const taskSecondsMax = 99_999_999

// tokenBytesMax is the longest token of a task (Step Functions API Reference, SendTaskSuccess).
const tokenBytesMax = 2048

// tokenOf returns the token that the event hands over, nil if it has none. With an error, the token that
// is returned can do no more than fail its task.
func tokenOf(d Delivery) (*Token, error) {
	if !bytes.Contains([]byte(d.Body), []byte(taskKey)) {
		return nil, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(d.Body), &keys); err != nil || keys[taskKey] == nil {
		return nil, nil //nolint:nilerr // Whether it is an event at all, others decide.
	}
	var form task
	decoder := json.NewDecoder(bytes.NewReader(keys[taskKey]))
	decoder.DisallowUnknownFields()
	wrong := decoder.Decode(&form)
	if wrong != nil {
		form, wrong = salvaged(keys[taskKey])
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
	token := &Token{
		Key: hex.EncodeToString(hash[:8]), Value: Secret(form.Token), Name: form.Name, Execution: form.Execution,
		EnteredAt: form.EnteredAt.UTC().Truncate(time.Millisecond), TimeoutSeconds: form.TimeoutSeconds, HeartbeatSeconds: form.HeartbeatSeconds,
	}
	if wrong == nil {
		wrong = form.check(d.SentAt)
	}
	return token, wrong
}

// taskKeyBytesMax is the longest key that is quoted: a longer one may be a token that was put there.
const taskKeyBytesMax = 32

// salvaged reads of a task that is not what it should be at least the token and the execution, so that it can
// be told. The error names the keys that are wrong, and no value: one may be the token.
func salvaged(body json.RawMessage) (form task, err error) {
	var keys map[string]json.RawMessage
	var mismatch *statechart.JSONError
	if errors.As(statechart.ReadJSON(body, &keys), &mismatch) {
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
			wrong = append(wrong, fmt.Sprintf("a key of %d bytes is none of it", len(key)))
		case !known:
			wrong = append(wrong, fmt.Sprintf("%q is no key of it", key))
		case errors.As(statechart.ReadJSON(keys[key], into), &mismatch):
			mismatch.Key = key
			if key == "enteredAt" {
				mismatch.Expected = "a time such as $$.State.EnteredTime"
			}
			wrong = append(wrong, mismatch.Error())
		}
	}
	return form, fmt.Errorf("%w: %s; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds", errTask, strings.Join(wrong, "; "))
}

// enteredAfterMax is how much later than its event was sent a task may say that it was entered: clocks differ.
const enteredAfterMax = 24 * time.Hour

// check reports what is wrong with a task whose token can be read, and whose event was sent at the given time, if that
// is known.
func (f *task) check(sentAt time.Time) error {
	switch {
	case f.Name == "" || len(f.Name) > statechart.EventNameBytesMax:
		return fmt.Errorf("%w: expected under \"name\" or \"state\" a name of 1 to %d bytes, such as $$.State.Name, got %d", errTask, statechart.EventNameBytesMax, len(f.Name))
	case f.TimeoutSeconds < 0 || f.HeartbeatSeconds < 0:
		return fmt.Errorf("%w: expected no negative seconds, got a time-out of %d and a heartbeat of %d", errTask, f.TimeoutSeconds, f.HeartbeatSeconds)
	case !sentAt.IsZero() && f.EnteredAt.Sub(sentAt) > enteredAfterMax:
		return fmt.Errorf("%w: expected enteredAt ($$.State.EnteredTime) no later than the event was sent, at %s, got %s", errTask, sentAt.UTC().Format(time.RFC3339), f.EnteredAt.UTC().Format(time.RFC3339))
	case f.TimeoutSeconds > taskSecondsMax || f.HeartbeatSeconds > taskSecondsMax:
		return fmt.Errorf("%w: expected at most %d seconds, as Step Functions does, got a time-out of %d and a heartbeat of %d", errTask, taskSecondsMax, f.TimeoutSeconds, f.HeartbeatSeconds)
	case f.HeartbeatSeconds > 0 && f.HeartbeatSeconds < heartbeatSecondsMin:
		return fmt.Errorf("%w: expected heartbeatSeconds of at least %d, as a heartbeat takes its way through queues, got %d", errTask, heartbeatSecondsMin, f.HeartbeatSeconds)
	default:
		return nil
	}
}

// hold keeps a token. One that is held already stays as it is.
func (t *turn) hold(token *Token) {
	if token == nil || t.token(token.Key) != nil {
		return
	}
	t.record.Tokens = append(slices.Clip(t.record.Tokens), *token)
	if at, ok := token.tendAt(t.loop.config.Now()); ok {
		t.record.Outbox = append(t.record.Outbox, statechart.Effect{ID: tendID(token.Key, 0), Kind: tend, Name: token.Key, At: at.UTC()})
	}
	t.dirty = true
}

func tendID(key string, count int) string { return fmt.Sprintf("token.%s.%d", key, count) }

// token returns the token with the key, nil if the instance does not hold it.
func (t *turn) token(key string) *Token {
	for i := range t.record.Tokens {
		if t.record.Tokens[i].Key == key {
			return &t.record.Tokens[i]
		}
	}
	return nil
}

// answer gives the tokens of a name, as they are held now, the answer of an effect.
func (t *turn) answer(effect statechart.Effect) {
	t.answerAll(answerOf(effect), func(token *Token) bool { return token.Name == effect.Name })
}

// answerEnded fails the tasks that an instance which has ended leaves without an answer.
func (t *turn) answerEnded() {
	if t.instance.Status() == statechart.Active || !slices.ContainsFunc(t.record.Tokens, waits) {
		return
	}
	cause := fmt.Sprintf("%s has ended in %v and has no answer under this name", t.record.Instance, t.instance.State())
	t.answerAll(&Answer{Error: ErrorEnded, Cause: cause}, func(*Token) bool { return true })
}

func (t *turn) answerAll(answer *Answer, concerns func(*Token) bool) {
	t.record.Tokens = slices.Clone(t.record.Tokens)
	for i := range t.record.Tokens {
		if token := &t.record.Tokens[i]; waits(*token) && concerns(token) {
			token.Answer = answer
		}
	}
}

// answerLate answers a token that came when its outcome was reached already.
func (t *turn) answerLate(token *Token, event statechart.Event) error {
	held := t.token(token.Key)
	if held == nil || !waits(*held) {
		return nil
	}
	effect, ok, err := t.instance.Resolving(token.Name, event)
	if err == nil && ok {
		t.answer(effect)
	}
	return err
}

// answerOf makes the answer of an effect.
func answerOf(effect statechart.Effect) *Answer {
	if effect.Error != "" {
		return &Answer{Error: effect.Error, Cause: cut(effect.Message, causeBytesMax)}
	}
	// Texts, and JSON that the chart has marshalled, always marshal.
	output, _ := json.Marshal(struct {
		Outcome string          `json:"outcome"`
		State   []string        `json:"state"`
		Tags    []string        `json:"tags"`
		Output  json.RawMessage `json:"output,omitempty"`
	}{effect.Outcome, effect.State, append([]string{}, effect.Tags...), effect.Output})
	if len(output) > AnswerBytesMax {
		return &Answer{Error: ErrorOutputTooLarge, Cause: fmt.Sprintf("the outcome is %q, but its output has %d bytes, of which Step Functions takes %d: "+
			"let the chart put it somewhere, and answer with where it is", effect.Outcome, len(output), AnswerBytesMax)}
	}
	return &Answer{Output: output}
}

// waits reports whether the token's task has no answer yet.
func waits(token Token) bool { return token.Answer == nil }

// causeBytesMax is how much of a failure's cause is told (Step Functions API Reference,
// SendTaskFailure: 32,768 characters).
const causeBytesMax = 32 << 10

// giveAnswers answers the tasks whose answers are stored. One that does not wait any more is told to
// the chart by an event.
func (t *turn) giveAnswers(ctx context.Context) error {
	for _, token := range t.record.Tokens {
		if waits(token) {
			continue
		}
		err := t.loop.ports.Tokens.Answer(ctx, token, *token.Answer, t.repeats)
		if errors.Is(err, ErrExpired) {
			err = t.tellUnlessAnswered(ctx, token)
		}
		if err != nil && t.isForGood(statechart.ResolveWaits, err) {
			err = t.giveUp(ctx, FailedEffect{ID: "token." + token.Key, Kind: statechart.ResolveWaits, Target: token.Name, Data: token.Answer.Output}, err)
		}
		if err != nil {
			return fmt.Errorf("answering the task %s of %s: %w", token.Name, t.record.Instance, err)
		}
	}
	return nil
}

// tellUnlessAnswered tells the chart of an expiry, unless another process may have given the answer while this one was frozen.
// Of a token that came without its execution, only the item tells: who answers takes the answer off it.
func (t *turn) tellUnlessAnswered(ctx context.Context, token Token) error {
	if token.Execution == "" {
		stored, err := t.loop.ports.Store.Load(ctx, t.record.Instance)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(stored.Tokens, func(k Token) bool { return k.Key == token.Key && !waits(k) }) {
			return nil
		}
	}
	return t.tellExpired(ctx, token)
}

// tellExpired sends the instance the event that an answer came too late.
func (t *turn) tellExpired(ctx context.Context, token Token) error {
	id := t.derivedID("token." + token.Key + ".expired")
	return t.loop.send(ctx, t.record.Instance, expired{Type: expiredEvent, ID: id, Name: token.Name, Execution: token.Execution, Incarnation: t.incarnation()}, id)
}

// expired is the body of expiredEvent, and that of TokenExpired.
type expired struct {
	Type string `json:"type"`
	// ID tells a repeat that comes after SQS has forgotten the first: the outbox may be stuck for longer.
	ID          string `json:"$id,omitempty"`
	Name        string `json:"name"`
	Execution   string `json:"execution,omitempty"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// isOwn reports whether the event type is one by which the loop is told something that is none of the
// chart's business.
func isOwn(typ string) bool {
	switch typ {
	case WaitEvent, tendEvent, expiredEvent, aliasTakenEvent, endedEvent, watchEvent, startEvent, stopEvent, childEvent, failedEvent:
		return true
	default:
		return false
	}
}

// examineOwn is examine for the loop's own events, of which the type and the producer's ID are known.
func (t *turn) examineOwn(d Delivery, event statechart.Event) (_ statechart.Event, v verdict, reason error) {
	if event.Type == WaitEvent {
		token, err := tokenOf(d)
		switch {
		case err == nil && token == nil:
			err = fmt.Errorf("%w: expected %s to have the key %s", errTask, WaitEvent, taskKey)
		case err == nil && t.instance == nil:
			err = t.checkBegins(WaitEvent)
		}
		if err != nil {
			return event, poisoned, err
		}
		return event, applicable, nil
	}
	if event.Type == startEvent || event.Type == stopEvent {
		return t.examineAsChild(d, event)
	}
	if err := checkOwn(event.Type, d.Body); err != nil {
		return event, poisoned, err
	}
	if t.instance == nil || incarnationOf(d.Body) != t.incarnation() {
		return event, skipped, nil
	}
	return event, applicable, nil
}

// applyExpired tells the chart that a task does not wait any more, if it declares the event.
func (t *turn) applyExpired(name, execution string) error {
	return t.applyOwn(TokenExpired, expired{Type: TokenExpired, Name: name, Execution: execution})
}

// applyTold applies one of the loop's own events.
func (t *turn) applyTold(ctx context.Context, d Delivery, event statechart.Event) error {
	switch event.Type {
	case tendEvent:
		return t.tendToken(ctx, d.Body)
	case expiredEvent:
		var form expired
		if err := json.Unmarshal([]byte(d.Body), &form); err != nil {
			return err
		}
		return t.applyExpired(form.Name, form.Execution)
	case aliasTakenEvent:
		return t.applyAliasTaken(d.Body)
	case endedEvent:
		var form ended
		if err := json.Unmarshal([]byte(d.Body), &form); err != nil {
			return err
		}
		return t.applyEnded(ctx, form.End)
	case watchEvent:
		return t.watchExecution(ctx, d.Body)
	case childEvent:
		return t.applyChildEnd(ctx, d.Body)
	case stopEvent:
		return t.stop()
	case failedEvent:
		return t.applyFailed(d.Body)
	default:
		return nil // A token, or its begin, is all that it brings.
	}
}

// AcceptTask checks an event by which a Step Functions task hands its token to an instance, before it
// is queued. Its errors wrap ErrUnknownMachine, or those of Machine.Decode.
func (m *Machines) AcceptTask(id InstanceID, body []byte) error {
	if _, err := m.Lookup(id.Machine); err != nil {
		return err
	}
	token, err := tokenOf(Delivery{Body: string(body)})
	if err == nil && token == nil {
		err = fmt.Errorf("%w: expected the key %s with the task's token", errTask, taskKey)
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

// failParked fails the task whose event is about to be parked: it would wait for nothing.
func (l *Loop) failParked(ctx context.Context, d Delivery, reason error) error {
	token, _ := tokenOf(d)
	if token == nil || l.ports.Tokens == nil {
		return nil // Without its token, there is no task to fail.
	}
	err := l.ports.Tokens.Answer(ctx, *token, Answer{Error: ErrorParked, Cause: cut(reason.Error(), causeBytesMax)}, d.ReceiveCount > 1)
	if errors.Is(err, ErrExpired) {
		return nil
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrDenied) && d.ReceiveCount >= l.config.AbandonedMax {
		// The event has to be parked all the same. Its task waits until it times out.
		l.config.Logger.ErrorContext(ctx, "failing the task of a parked event failed for good", "instance", d.Group, "message_id", d.MessageID, "error", err)
		return nil
	}
	return err
}

func (t *turn) incarnation() int64 { return t.record.CreatedAt.UnixMilli() }
