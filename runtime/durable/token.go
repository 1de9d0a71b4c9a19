package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// answerBytesMax is the longest output of a task (Step Functions Developer Guide, "Service quotas").
const answerBytesMax = 256 << 10

// The errors of the runtime itself, as workflows and charts receive them.
const (
	// ErrorOutputTooLarge fails a task whose answer is longer than 256 KiB. The chart receives the same error for an
	// execution whose output does not fit into its instance.
	ErrorOutputTooLarge = "Settle.OutputTooLarge"
	// ErrorParked fails a task whose event was parked.
	ErrorParked = "Settle.Parked"
	// ErrorEnded fails a task when the instance ends, or has ended, without an answer for it.
	ErrorEnded   = "Settle.Ended"
	ErrorStopped = "Settle.Stopped" // an operator has ended the instance
)

// Tokens answers Step Functions tasks, by the tokens that instances hold.
type Tokens interface {
	// Answer ends the wait of the task. `repeat` is set if an earlier call may have taken effect. ErrExpired then means
	// that no call took effect. After any other error, the call may or may not have taken effect. ErrDenied is also
	// returned while Step Functions does not show how the task ended.
	Answer(ctx context.Context, token instances.Token, answer instances.Answer, repeat bool) error
	// Heartbeat reports that the task is still in progress. Fails with ErrExpired.
	Heartbeat(ctx context.Context, token instances.Token) error
}

// errNoTokens is the error of a loop that cannot answer tasks.
var errNoTokens = errors.New("this consumer has no client that answers tasks: set Ports.Tokens")

// taskIDPrefix is the prefix of the ID of an event that has a token but no ID of its own. The token's key follows.
const taskIDPrefix = "task/"

// hold keeps the token of an event and remembers its key. If an earlier event has brought the same token, hold ignores
// it, unless the answer to the token failed permanently.
func (t *turn) hold(token *instances.Token, eventID string) {
	if token == nil {
		return
	}
	_, held := t.token(token.Key)
	_, failed := find(t.draft.Record.FailedEffects, func(f *instances.FailedEffect) bool { return f.ID == "token."+token.Key })
	id := taskIDPrefix + token.Key // This entry of RecentEvents has no hash, unlike the entry of an event that has this ID.
	known := Remembers(t.draft.Record, id, nil) || slices.Contains(t.draft.Record.RecentEvents, id)
	if held || known && !failed {
		return
	}
	if id != eventID {
		t.rememberEvent(id)
	}
	t.draft.Record.Tokens = append(slices.Clip(t.draft.Record.Tokens), *token)
	t.changed()
	if _, at, ok := t.nextHeartbeat(*token, 0); ok {
		t.owe(statechart.Effect{ID: heartbeatID(heartbeatForm{Token: token.Key}), Kind: heartbeat, Name: token.Key, At: at.UTC()})
	}
}

// dropToken forgets a token.
func (t *turn) dropToken(key string) {
	t.draft.Record.Tokens = withoutToken(t.draft.Record.Tokens, key)
	t.changed()
}

// withoutToken returns a copy of the tokens that lacks the token with the key.
func withoutToken(tokens []instances.Token, key string) []instances.Token {
	return without(tokens, func(token instances.Token) bool { return token.Key == key })
}

// answer gives an effect's answer to all waiting tokens that have the name of the effect.
func (t *turn) answer(effect statechart.Effect) {
	t.answerAll(answerOf(effect), func(token *instances.Token) bool { return waits(*token) && token.Name == effect.Name })
}

// closeWaits ends all waits of an instance that has ended, and releases its aliases. It runs after each step: the next
// event of the turn may be the end of an execution, and that end no longer counts.
func (t *turn) closeWaits() {
	if t.draft.Instance.Status() == statechart.Active {
		return
	}
	cause := fmt.Sprintf("%s has ended in %v and has no answer under this name", t.draft.Record.Instance, t.draft.Instance.State())
	t.endWaits(instances.Answer{Error: ErrorEnded, Cause: cause})
}

// endWaits releases the aliases, and gives the answer to all waiting tasks.
func (t *turn) endWaits(answer instances.Answer) {
	for _, alias := range t.draft.Record.Aliases {
		t.owe(releaseOf(alias))
	}
	t.draft.Record.Executions, t.draft.Record.Aliases = nil, nil
	if slices.ContainsFunc(t.draft.Record.Tokens, waits) {
		t.answerAll(&answer, func(token *instances.Token) bool { return waits(*token) })
	}
}

// answerAll gives an answer to the matching tokens.
func (t *turn) answerAll(answer *instances.Answer, concerned func(*instances.Token) bool) {
	t.draft.Record.Tokens = replaced(t.draft.Record.Tokens, concerned, func(token *instances.Token) { token.Answer = answer })
	t.changed()
}

// answerLate answers a token that arrived after the chart had reached the token's outcome.
func (t *turn) answerLate(token *instances.Token, event statechart.Event) error {
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

// answerOf builds the answer of an effect.
func answerOf(effect statechart.Effect) *instances.Answer {
	if effect.Error != "" {
		return &instances.Answer{Error: effect.Error, Cause: cut(effect.Message, causeBytesMax)}
	}
	// Text, and JSON that the chart has marshalled, always marshals.
	output, _ := json.Marshal(struct {
		Outcome string          `json:"outcome"`
		State   []string        `json:"state"`
		Tags    []string        `json:"tags"`
		Output  json.RawMessage `json:"output,omitempty"`
	}{effect.Outcome, effect.State, append([]string{}, effect.Tags...), effect.Output})
	if len(output) > answerBytesMax {
		return &instances.Answer{Error: ErrorOutputTooLarge, Cause: fmt.Sprintf("the outcome is %q, but its output has %d bytes and Step Functions accepts %d: "+
			"store it elsewhere and answer with a reference", effect.Outcome, len(output), answerBytesMax)}
	}
	return &instances.Answer{Output: output}
}

// waits reports whether the token's task still waits: the instance has no answer for it yet, and does not know that
// the task has expired.
func waits(token instances.Token) bool { return token.Answer == nil && !token.Expired }

// owed returns the tokens whose answer may not have been given yet.
func owed(tokens []instances.Token) []instances.Token {
	return without(tokens, func(token instances.Token) bool { return token.Answer == nil })
}

// causeBytesMax limits the cause of a failure (Step Functions API Reference, SendTaskFailure: 32,768 characters).
const causeBytesMax = 32 << 10

// giveAnswers gives the stored answers to their tasks and returns the remaining tokens. If a task no longer waits,
// giveAnswers sends a message that reports this to the chart, and keeps the token as expired: see applyExpired. If the
// invocation runs out of time, giveAnswers leaves the other answers to the next invocation.
func (t *turn) giveAnswers(ctx context.Context) (left []instances.Token, err error) {
	left = t.stored.Record.Tokens
	begun := false
	for _, token := range owed(t.stored.Record.Tokens) {
		if begun && !t.loop.hasTime(ctx) {
			return left, &retryError{err: fmt.Errorf("some answers of %s are left for the next invocation", t.stored.Record.Instance)}
		}
		begun = true
		err := errNoTokens
		if tokens := t.loop.ports.Tokens; tokens != nil {
			err = tokens.Answer(ctx, token, *token.Answer, t.repeats)
		}
		isExpired := errors.Is(err, ErrExpired)
		if isExpired {
			err = t.notifyExpired(ctx, token)
			isExpired = err == nil
		}
		if err != nil && t.isPermanent(statechart.ResolveWaits, err) {
			err = t.giveUp(ctx, instances.FailedEffect{ID: "token." + token.Key, Kind: statechart.ResolveWaits, Target: token.Name, Data: token.Answer.Output}, err)
		}
		if err == nil {
			t.draft.Record.DeniedSince = time.Time{} // DeniedSince belongs to the next answer to give, and that is now another answer.
		}
		if err != nil {
			return left, fmt.Errorf("answering the task %s of %s: %w", token.Name, t.stored.Record.Instance, err)
		}
		if isExpired {
			isIt := func(other *instances.Token) bool { return other.Key == token.Key }
			left = replaced(left, isIt, func(k *instances.Token) { k.Answer, k.Expired = nil, true })
		} else {
			left = withoutToken(left, token.Key)
		}
	}
	return left, nil
}

// notifyExpired sends the instance the message that an answer came too late. Step Functions reports the same error for
// a task that was answered before and for a task that has timed out. If the task came with its execution, the
// execution's history distinguishes the two. Otherwise the item distinguishes them: a turn that repeats an answer
// raises the revision first (see takeOver), so another turn cannot mark the token as expired.
func (t *turn) notifyExpired(ctx context.Context, token instances.Token) error {
	form := expired{Type: expiredEvent, Token: token.Key, Name: token.Name, Execution: token.Execution, Incarnation: t.incarnation()}
	return t.loop.send(ctx, t.stored.Record.Instance, form, t.derivedID("token."+token.Key+".expired"), nil)
}

// expired is the body of expiredEvent and of TokenExpired.
type expired struct {
	Type string `json:"type"`
	// Token is the key of the token. Older builds left it out.
	Token       string `json:"token,omitempty"`
	Name        string `json:"name"`
	Execution   string `json:"execution,omitempty"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// applyExpired reports to the chart that a task no longer waits, if the chart declares this event. A stuck outbox may
// send the message again after SQS has forgotten its ID, so the item shows whether the chart has received the event.
func (t *turn) applyExpired(_ context.Context, form expired) error {
	if form.Token != "" {
		token, ok := t.token(form.Token)
		if !ok || !token.Expired {
			return nil
		}
		t.dropToken(token.Key)
	}
	return t.applyOwn(TokenExpired, expired{Type: TokenExpired, Name: form.Name, Execution: form.Execution})
}
