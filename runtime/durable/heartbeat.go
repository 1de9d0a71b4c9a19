package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// nextHeartbeat returns the number and the due time of the next firing. `last` is the number of the firing before it.
// The new number depends only on `last` and on the heartbeat intervals since the task was entered. So two copies of a
// firing schedule the next one under the same ID, and SQS drops the duplicate. The next firing is due when its interval
// ends, or a second after the task's timeout. `ok` is false if the token has neither heartbeats nor a timeout.
func (t *turn) nextHeartbeat(token instances.Token, last int) (count int, at time.Time, ok bool) {
	now := t.loop.config.Now()
	count = last + 1
	if interval := heartbeatInterval(token); interval > 0 {
		due := max(int(now.Sub(token.EnteredAt)/interval), 0) + 1
		count = max(due, min(last, due+earlyFiringsMax)+1) // A firing may come early if clocks differ.
		at, ok = token.EnteredAt.Add(time.Duration(count)*interval), true
		if latest := now.Add(interval); latest.Before(at) {
			at = latest
		}
	}
	if token.TimeoutSeconds > 0 {
		// A second after the timeout, Step Functions has timed out the task too. If that second is over, check the task again
		// a little later.
		over := token.EnteredAt.Add(time.Duration(token.TimeoutSeconds)*time.Second + time.Second)
		if !over.After(now) {
			over = now.Add(t.loop.config.HeartbeatRetryMin)
		}
		if !ok || over.Before(at) {
			at, ok = over, true
		}
	}
	return count, at, ok
}

// earlyFiringsMax limits how far the number of a firing may be ahead of its time. A forged message may have any number.
const earlyFiringsMax = 60

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
	// Count numbers the firings, and Failures the failures in a row: together they distinguish one firing from the next.
	Count       int   `json:"count"`
	Failures    int   `json:"failures,omitempty"`
	Incarnation int64 `json:"$incarnation"`
}

// heartbeat sends the heartbeat of a token's task and schedules the next one. It changes the item only if Step
// Functions reports that the task has expired. After a failure, the next firing comes sooner and retries the heartbeat.
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
		t.dropToken(token.Key)
		return t.applyExpired(ctx, expired{Name: token.Name, Execution: token.Execution})
	}
	count, at, ok := t.nextHeartbeat(token, form.Count)
	if err == nil {
		form.Count, form.Failures = count, 0
	} else {
		form.Failures++
		// The failure does not block the events of the instance.
		at, ok = t.loop.config.Now().Add(t.retryHeartbeat(token, form.Failures)), true
		t.loop.config.Logger.WarnContext(ctx, "task heartbeat failed, will retry", "instance", t.draft.Record.Instance.String(), "task", token.Name, "failures", form.Failures, "error", err)
	}
	if !ok {
		return nil
	}
	// The next heartbeat cannot get lost: the current message is retried until this succeeds.
	return t.schedule(ctx, at, form, heartbeatID(form))
}

func heartbeatID(form heartbeatForm) string {
	id := fmt.Sprintf("token.%s.%d", form.Token, form.Count)
	if form.Failures > 0 {
		id += fmt.Sprintf("-%d", form.Failures)
	}
	return id
}

// scheduleFirstHeartbeat performs a heartbeat effect.
func (t *turn) scheduleFirstHeartbeat(ctx context.Context, effect statechart.Effect) error {
	return t.schedule(ctx, effect.At, heartbeatForm{Type: heartbeatEvent, Token: effect.Name, Incarnation: t.incarnation()}, effect.ID)
}

func (t *turn) isHeartbeatUnneeded(effect statechart.Effect) bool {
	token, held := t.token(effect.Name)
	return !held || !waits(token)
}
