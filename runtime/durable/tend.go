package durable

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// tendAt returns when the token must be looked after next: for its next heartbeat, or once it has
// timed out. It reports false if it need not be.
func (k *Token) tendAt(now time.Time) (at time.Time, ok bool) {
	if k.HeartbeatSeconds > 0 {
		at, ok = now.Add(time.Duration(k.HeartbeatSeconds)*time.Second/3), true
	}
	if k.TimeoutSeconds > 0 {
		// By then Step Functions has given up too; if not, ask again a little later.
		over := k.EnteredAt.Add(time.Duration(k.TimeoutSeconds)*time.Second + time.Second)
		if !over.After(now) {
			over = now.Add(tendAgain)
		}
		if !ok || over.Before(at) {
			at, ok = over, true
		}
	}
	return at, ok
}

// tendAgain is the wait before a token whose time should be up is looked after again.
const tendAgain = 10 * time.Second

// tendAgainMax is the longest wait before a token is looked after again, once that has failed: the wait doubles.
const tendAgainMax = 15 * time.Minute

// tendAgainIn returns the wait before a token is looked after again, once that has failed so many times in a row, from 1.
func (k *Token) tendAgainIn(failures int) time.Duration {
	wait := tendAgain
	for ; failures > 1 && wait < tendAgainMax; failures-- {
		wait *= 2
	}
	if k.HeartbeatSeconds > 0 {
		wait = min(wait, time.Duration(k.HeartbeatSeconds)*time.Second/3)
	}
	return min(wait, tendAgainMax)
}

// tending is the body of tendEvent.
type tending struct {
	Type  string `json:"type"`
	Token string `json:"token"`
	// Count tells one firing from the next, and Failures how many of the last have failed.
	Count       int   `json:"count"`
	Failures    int   `json:"failures,omitempty"`
	Incarnation int64 `json:"$incarnation"`
}

// incarnationOf returns the creation of the instance that an event of the loop's own was made for, in
// milliseconds since 1970; 0 if it does not tell.
func incarnationOf(body string) int64 {
	var origin struct {
		Incarnation int64 `json:"$incarnation"`
	}
	_ = json.Unmarshal([]byte(body), &origin)
	return origin.Incarnation
}

// tendToken looks after a token: it beats its heart, and learns so whether its task still waits. Nothing
// is stored unless it does not. A beat that fails is repeated with the next firing, which then comes sooner.
func (t *turn) tendToken(ctx context.Context, body string) error {
	var form tending
	if err := json.Unmarshal([]byte(body), &form); err != nil {
		return err
	}
	token := t.token(form.Token)
	if token == nil || !waits(*token) {
		return nil
	}
	err := t.loop.ports.Tokens.Heartbeat(ctx, *token)
	if errors.Is(err, ErrExpired) {
		gone := *token
		t.record.Tokens = slices.DeleteFunc(slices.Clone(t.record.Tokens), func(k Token) bool { return k.Key == gone.Key })
		t.dirty = true
		return t.applyExpired(gone.Name, gone.Execution)
	}
	at, ok := token.tendAt(t.loop.config.Now())
	form.Count, form.Failures = form.Count+1, form.Failures+1
	if err == nil {
		form.Failures = 0
	} else {
		// That is no reason to hold up the events of the instance.
		at, ok = t.loop.config.Now().Add(token.tendAgainIn(form.Failures)), true
		t.loop.config.Logger.WarnContext(ctx, "looking after a task failed, to be tried again", "instance", t.record.Instance.String(), "task", token.Name, "failures", form.Failures, "error", err)
	}
	if !ok {
		return nil
	}
	return t.scheduleTending(ctx, at, form)
}

// scheduleTending asks for the next firing by which a token is looked after.
func (t *turn) scheduleTending(ctx context.Context, at time.Time, form tending) error {
	form.Type, form.Incarnation = tendEvent, t.incarnation()
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	return t.loop.ports.Timers.Schedule(ctx, at, Message{
		To: t.record.Instance, Body: body, DeduplicationID: shortened(t.derivedID(tendID(form.Token, form.Count))),
	})
}
