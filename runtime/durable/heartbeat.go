package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// nextHeartbeat returns when the token's next heartbeat or its timeout check is due. ok is false if it has neither.
func (t *turn) nextHeartbeat(token instances.Token) (at time.Time, ok bool) {
	now := t.loop.config.Now()
	if token.HeartbeatSeconds > 0 {
		at, ok = now.Add(heartbeatInterval(token)), true
	}
	if token.TimeoutSeconds > 0 {
		// By then the task has timed out in Step Functions too. If it has not, check again a little later.
		over := token.EnteredAt.Add(time.Duration(token.TimeoutSeconds)*time.Second + time.Second)
		if !over.After(now) {
			over = now.Add(t.loop.config.HeartbeatRetryMin)
		}
		if !ok || over.Before(at) {
			at, ok = over, true
		}
	}
	return at, ok
}

// heartbeatInterval returns the interval of a token's heartbeats: a third of the interval that Step Functions allows.
func heartbeatInterval(token instances.Token) time.Duration {
	return time.Duration(token.HeartbeatSeconds) * time.Second / 3
}

// retryHeartbeat returns the wait before the next heartbeat after the given number of failures in a row, at least 1.
func (t *turn) retryHeartbeat(token instances.Token, failures int) time.Duration {
	wait := doubling(t.loop.config.HeartbeatRetryMin, t.loop.config.HeartbeatRetryMax, failures-1)
	if token.HeartbeatSeconds > 0 {
		wait = min(wait, heartbeatInterval(token))
	}
	return wait
}

// heartbeatForm is the body of heartbeatEvent.
type heartbeatForm struct {
	Type  string `json:"type"`
	Token string `json:"token"`
	// Count distinguishes one firing from the next. Failures is the number of failures in a row.
	Count       int   `json:"count"`
	Failures    int   `json:"failures,omitempty"`
	Incarnation int64 `json:"$incarnation"`
}

// heartbeat sends the heartbeat of a token's task and schedules the next one. It stores nothing unless the task no
// longer waits. After a failure, the next firing comes sooner and retries the heartbeat.
func (t *turn) heartbeat(ctx context.Context, form heartbeatForm) error {
	token, ok := t.token(form.Token)
	if !ok || !waits(token) {
		return nil
	}
	err := errNoTokens
	if tokens := t.loop.ports.Tokens; tokens != nil {
		err = tokens.Heartbeat(ctx, token)
	}
	if errors.Is(err, ErrExpired) {
		t.draft.Record.Tokens = without(t.draft.Record.Tokens, func(k instances.Token) bool { return k.Key == token.Key })
		t.changed()
		return t.applyExpired(ctx, expired{Name: token.Name, Execution: token.Execution})
	}
	at, ok := t.nextHeartbeat(token)
	form.Count, form.Failures = form.Count+1, form.Failures+1
	if err == nil {
		form.Failures = 0
	} else {
		// The failure does not block the events of the instance.
		at, ok = t.loop.config.Now().Add(t.retryHeartbeat(token, form.Failures)), true
		t.loop.config.Logger.WarnContext(ctx, "task heartbeat failed, will retry", "instance", t.draft.Record.Instance.String(), "task", token.Name, "failures", form.Failures, "error", err)
	}
	if !ok {
		return nil
	}
	// The next heartbeat cannot get lost: the current message is retried until this succeeds.
	return t.schedule(ctx, at, form, heartbeatID(form.Token, form.Count))
}

func heartbeatID(key string, count int) string { return fmt.Sprintf("token.%s.%d", key, count) }

// scheduleFirstHeartbeat performs a heartbeat effect.
func (t *turn) scheduleFirstHeartbeat(ctx context.Context, effect statechart.Effect) error {
	return t.schedule(ctx, effect.At, heartbeatForm{Type: heartbeatEvent, Token: effect.Name, Incarnation: t.incarnation()}, effect.ID)
}

func (t *turn) isHeartbeatUnneeded(effect statechart.Effect) bool {
	token, held := t.token(effect.Name)
	return !held || !waits(token)
}
