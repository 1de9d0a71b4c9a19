package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// Step Functions refuses a start, and the reason does not fit into the item.
func TestARefusedStartOfAFullItemBlocksNothing(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		limit := 0
		w.post(printer1, event("add", strings.Repeat("x", 500)))
		w.runSized(t, time.Second, &limit)
		w.refusal = errors.New("throttled")
		w.post(printer1, `{"type":"ship"}`)
		w.invokeSized(t, &limit)
		limit = w.bytesOf(printer1) + 70 // The outbox is stored. 70 bytes are for denied_since.
		w.refusal = &durable.RefusedError{Code: "AccessDeniedException", Err: errors.New("starting the execution settle-printer-1-0123456789abcdef0123456789abcdef of arn:aws:states:eu-central-1:123456789012:stateMachine:print: " +
			"operation error SFN: StartExecution, https response error StatusCode: 400, RequestID: 3f6a1b9c-6d0e-4c57-8d5e-0a1b2c3d4e5f, api error AccessDeniedException: " +
			"User: arn:aws:sts::123456789012:assumed-role/settle-consumer-Role-1ABCDEFGHIJKL/settle-consumer is not authorized to perform: states:StartExecution on resource: " +
			"arn:aws:states:eu-central-1:123456789012:stateMachine:print because no identity-based policy allows the states:StartExecution action")}
		w.post(printer1, event("add", "y"))
		w.runSized(t, 2*24*time.Hour, &limit)
		if r := w.load(printer1); len(w.messages) > 0 || len(r.Outbox) > 0 {
			t.Errorf("after two days: %d messages, %d effects in the outbox, %d calls of StartExecution", len(w.messages), len(r.Outbox), w.counted("Start "))
		}
	})
}

// An item has no room for the count of a try. The same delivery succeeds if it comes for the first time.
func TestARedeliveryToAFullItemIsNotParked(t *testing.T) {
	t.Parallel()
	for _, first := range []fault{none, dieBefore} {
		t.Run("event, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				limit := 0
				w.post("order/1", growing(2000))
				w.runSized(t, time.Minute, &limit)
				limit = w.bytesOf("order/1") + 60
				w.hook = faults(map[string]fault{"Load order/1 #1": first})
				w.post("order/1", growing(0)) // This event makes the item smaller.
				w.runSized(t, time.Hour, &limit)
				w.wantParked(t)
			})
		})
		t.Run("heartbeat, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				limit := 0
				w.waitFor("t1", "Delivery", 0, time.Hour)
				w.runSized(t, time.Minute, &limit)
				limit = w.bytesOf(parcel1) + 60
				w.hook = faults(map[string]fault{"Load parcel/1 #1": first})
				w.runSized(t, 5*time.Hour, &limit)
				w.wantAnswer(t, "t1", "waits")
				w.wantParked(t)
			})
		})
		t.Run("poll, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			inPrinterWorld(t, func(t *testing.T, w *world) {
				limit := 0
				w.post(printer1, `{"type":"ship"}`)
				w.runSized(t, time.Minute, &limit)
				limit = w.bytesOf(printer1) + 60
				w.hook = faults(map[string]fault{"Load printer/1 #1": first})
				w.runSized(t, 25*time.Minute, &limit)
				limit = 0                // There is room again.
				w.only(t).end = &printed // EventBridge does not report it.
				w.runSized(t, 10*24*time.Hour, &limit)
				w.wantPrinted(t, 0, printedLog)
			})
		})
	}
}

// One failed effect does not fit into the item whole, but without its data.
func TestAFailureThatFitsInShortIsKept(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		limit := 0
		w.post(courier1, event("add", "a"))
		w.runSized(t, time.Second, &limit)
		w.refuse = refusing(errors.New("throttled"), "Send order/2")
		w.post(courier1, telling("order/2", strings.Repeat("x", 600)))
		w.invokeSized(t, &limit)
		limit = w.bytesOf(courier1) + 60
		w.refuse = refusing(fmt.Errorf("%s: %w", strings.Repeat("y", 900), durable.ErrRefused), "Send order/2")
		w.runSized(t, 24*time.Hour, &limit)
		if r := w.load(courier1); len(r.FailedEffects) != 1 || len(w.logOf(t, courier1)) != 3 {
			t.Errorf("the item has %d of %d bytes, the failed effects %+v, and a log of %d", w.bytesOf(courier1), limit, r.FailedEffects, len(w.logOf(t, courier1)))
		}
	})
}

// sizedStore is a process whose items hold at most *bytesMax bytes of JSON; 0 means no limit.
type sizedStore struct {
	*process
	bytesMax *int
}

func (s sizedStore) fits(record durable.Record) error {
	body, err := json.Marshal(record)
	if limit := *s.bytesMax; err == nil && limit > 0 && len(body) > limit {
		return &durable.TooLargeError{Bytes: len(body), BytesMax: limit}
	}
	return err
}

func (s sizedStore) Commit(ctx context.Context, record durable.Record) error {
	if err := s.fits(record); err != nil {
		return err
	}
	return s.process.Commit(ctx, record)
}

func (s sizedStore) ClearOutbox(ctx context.Context, id durable.InstanceID, revision int64, left durable.Left) error {
	s.mu.Lock()
	record := s.load(id.String())
	s.mu.Unlock()
	record.Outbox, record.Tokens, record.Executions = left.Outbox, left.Tokens, left.Executions
	record.FailedEffects, record.DeniedSince, record.ExpireAt = left.FailedEffects, left.DeniedSince, left.ExpireAt
	if err := s.fits(record); err != nil {
		return err
	}
	return s.process.ClearOutbox(ctx, id, revision, left)
}

// invokeSized is invoke with items of limited size.
func (w *world) invokeSized(t *testing.T, bytesMax *int) {
	t.Helper()
	p := w.start(functionTimeout)
	defer p.cancel()
	loop, err := durable.New(w.machines, durable.Ports{Store: sizedStore{p, bytesMax}, Queue: p, Timers: p, Tokens: p, Executions: p}, w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	batch := w.receive(batchSize)
	w.mu.Unlock()
	failed := loop.Handle(p.ctx, batch)
	for _, d := range batch {
		if !p.isDead() && !slices.Contains(failed, d.MessageID) {
			w.remove(d)
		}
	}
}

// runSized is runFor with items of limited size.
func (w *world) runSized(t *testing.T, d time.Duration, bytesMax *int) {
	t.Helper()
	for end, n := time.Now().Add(d), 0; n < 1000; n++ {
		at := w.next()
		if at.IsZero() && len(w.messages) == 0 || at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(at))
		w.invokeSized(t, bytesMax)
	}
	t.Errorf("after 1000 invocations %d messages are left", len(w.messages))
}

// bytesOf returns the size of an item without its history.
func (w *world) bytesOf(id string) int {
	r := w.load(id)
	r.History = nil
	body, _ := json.Marshal(r)
	return len(body)
}
