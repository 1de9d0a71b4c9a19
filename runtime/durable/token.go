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

// taskIDPrefix begins the ID of an event that hands over a token and has no ID of its own. The token's key follows.
const taskIDPrefix = "task/"

// hold keeps a token. A token that is held already stays as it is.
func (t *turn) hold(token *Token) {
	if token == nil {
		return
	}
	if _, held := t.token(token.Key); held {
		return
	}
	t.draft.Record.Tokens = append(slices.Clip(t.draft.Record.Tokens), *token)
	t.changed()
	if at, ok := t.nextBeat(*token); ok {
		t.owe(statechart.Effect{ID: beatID(token.Key, 0), Kind: beat, Name: token.Key, At: at.UTC()})
	}
}

// answer gives the tokens of a name, as they are held now, the answer of an effect.
func (t *turn) answer(effect statechart.Effect) {
	t.answerAll(answerOf(effect), func(token *Token) bool { return waits(*token) && token.Name == effect.Name })
}

// closeWaits ends all that an instance which has ended waits for. It is called after each step: the next event of the turn
// may come from such an end already.
func (t *turn) closeWaits() {
	if t.draft.Instance.Status() == statechart.Active {
		return
	}
	t.draft.Record.Executions = nil
	if slices.ContainsFunc(t.draft.Record.Tokens, waits) {
		cause := fmt.Sprintf("%s has ended in %v and has no answer under this name", t.draft.Record.Instance, t.draft.Instance.State())
		t.answerAll(&Answer{Error: ErrorEnded, Cause: cause}, waitsStill)
	}
}

// waitsStill reports whether a token's task has no answer yet.
func waitsStill(token *Token) bool { return waits(*token) }

// answerAll gives tokens an answer.
func (t *turn) answerAll(answer *Answer, concerned func(*Token) bool) {
	t.draft.Record.Tokens = replaced(t.draft.Record.Tokens, concerned, func(token *Token) { token.Answer = answer })
	t.changed()
}

// answerLate answers a token that came when its outcome was reached already.
func (t *turn) answerLate(token *Token, event statechart.Event) error {
	held, ok := t.token(token.Key)
	if !ok || !waits(held) {
		return nil
	}
	effect, ok, err := t.draft.Instance.Resolving(token.Name, event)
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

// giveAnswers answers the tasks whose answers are stored, and returns the tokens that are left. A task that does not wait any more is
// reported to the chart by an event.
func (t *turn) giveAnswers(ctx context.Context, repeats bool) (left []Token, err error) {
	left = t.stored.Record.Tokens
	for _, token := range t.stored.Record.Tokens {
		if waits(token) {
			continue
		}
		err := t.loop.ports.Tokens.Answer(ctx, token, *token.Answer, repeats)
		if errors.Is(err, ErrExpired) {
			err = t.notifyExpired(ctx, token)
		}
		if err != nil && t.isForGood(statechart.ResolveWaits, err) {
			err = t.giveUp(ctx, FailedEffect{ID: "token." + token.Key, Kind: statechart.ResolveWaits, Target: token.Name, Data: token.Answer.Output}, err)
		}
		if err != nil {
			return left, fmt.Errorf("answering the task %s of %s: %w", token.Name, t.stored.Record.Instance, err)
		}
		left = without(left, func(other Token) bool { return other.Key == token.Key })
	}
	return left, nil
}

// notifyExpired sends the instance the message that an answer came too late. Step Functions does not distinguish an answer that was
// given before from a task that has timed out; of a task that came with its execution, the history does. For any other task, the
// revision does: whoever may give an answer a second time raises it first (see takeOver).
func (t *turn) notifyExpired(ctx context.Context, token Token) error {
	id := t.stored.Record.Instance
	if token.Execution == "" {
		now, err := t.loop.load(ctx, id)
		if err != nil {
			return err
		}
		if now.Revision != t.stored.Record.Revision {
			return fmt.Errorf("%w: another turn may have answered the task", ErrConflict)
		}
	}
	dedup := t.derivedID("token." + token.Key + ".expired")
	return t.loop.send(ctx, id, expired{Type: expiredEvent, ID: dedup, Name: token.Name, Execution: token.Execution, Incarnation: t.incarnation()}, dedup)
}

// expired is the body of expiredEvent and of TokenExpired.
type expired struct {
	Type string `json:"type"`
	// ID shows a duplicate that comes after SQS has forgotten the first: the outbox may be stuck for longer.
	ID          string `json:"$id,omitempty"`
	Name        string `json:"name"`
	Execution   string `json:"execution,omitempty"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// applyExpired reports to the chart that a task does not wait any more, if it declares the event.
func (t *turn) applyExpired(_ context.Context, form expired) error {
	return t.applyOwn(TokenExpired, expired{Type: TokenExpired, Name: form.Name, Execution: form.Execution})
}
