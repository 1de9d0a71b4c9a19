package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// leaveOff ends all that an instance which has ended waits for. It is called after each step: the next event of the turn
// may tell of an end already.
func (t *turn) leaveOff() {
	t.answerEnded()
	t.forgetExecutions()
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
		stored, err := t.loop.load(ctx, t.record.Instance)
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

func (t *turn) incarnation() int64 { return t.record.CreatedAt.UnixMilli() }
