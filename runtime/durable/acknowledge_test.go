package durable_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// acknowledger acknowledges deliveries before the end of their batch.
type acknowledger func(ctx context.Context, deliveries []durable.Delivery) error

func (a acknowledger) Acknowledge(ctx context.Context, deliveries []durable.Delivery) error {
	return a(ctx, deliveries)
}

// besideASlowOne runs a test in a world where order/2 calls the service `charge`, which takes the given time.
func besideASlowOne(t *testing.T, takes time.Duration, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = lasting(takes, "charged")
		w.post("order/2", event("charge", ""))
		test(t, w)
		w.wantLog(t, "order/2", "charged")
		w.wantSound(t)
	})
}

func TestWhatIsDoneWithBeforeAFailureDoesNotLockItsGroupUntilTheBatchEnds(t *testing.T) {
	t.Parallel()
	besideASlowOne(t, 9*time.Second, func(t *testing.T, w *world) {
		var early []string
		w.acknowledger = acknowledger(func(_ context.Context, deliveries []durable.Delivery) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, d := range deliveries {
				early = append(early, d.Body)
				w.remove(d)
			}
			return nil
		})
		bodies := []string{event("add", "a"), event("refuse", ""), event("add", "b")}
		w.post("order/1", bodies...)
		ended := make(chan []string)
		go func() { ended <- w.invoke() }()
		time.Sleep(2500 * time.Millisecond)
		w.mu.Lock()
		if !slices.Equal(early, bodies[:1]) {
			t.Errorf("acknowledged %q early, want only the applied event: %q", early, bodies[:1])
		}
		again := w.receive(batchSize)
		w.mu.Unlock()
		if len(again) != 2 || again[0].Body != bodies[1] || again[1].Body != bodies[2] {
			t.Errorf("after the back-off, another consumer receives %+v, want %q", again, bodies[1:])
		}
		if failed := <-ended; !slices.Equal(failed, bodies[1:]) {
			t.Errorf("the batch reported the failures %q, want %q", failed, bodies[1:])
		}
		w.run(t)
		w.wantLog(t, "order/1", "a", "b")
		w.wantParked(t, [2]string{"refuse", "refused"})
	})
}

func TestAnAcknowledgerThatDoesNotDoItsPartHoldsItsBatchUpForSecondsAtMost(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ <-chan bool) error { <-ctx.Done(); return ctx.Err() }
	deaf := func(_ context.Context, end <-chan bool) error { <-end; return nil }
	for name, c := range map[string]struct {
		acknowledge   func(ctx context.Context, end <-chan bool) error
		timeout, want time.Duration
		wantLogged    string
	}{
		"it fails":                     {func(context.Context, <-chan bool) error { return errors.New("denied") }, functionTimeout, 1500 * time.Millisecond, "denied"},
		"it panics":                    {func(context.Context, <-chan bool) error { panic("no client") }, functionTimeout, 1500 * time.Millisecond, "panic: a value of the type string"},
		"it hangs":                     {hangs, functionTimeout, 4 * time.Second, "no answer within 3s"},
		"it hangs until the margin":    {hangs, 5 * time.Second, 3 * time.Second, "context deadline exceeded"},
		"it does not hear its context": {deaf, functionTimeout, 4 * time.Second, "no answer within 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			besideASlowOne(t, 1500*time.Millisecond, func(t *testing.T, w *world) {
				var logged bytes.Buffer
				w.config.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
				end := make(chan bool)
				defer close(end)
				w.acknowledger = acknowledger(func(ctx context.Context, _ []durable.Delivery) error { return c.acknowledge(ctx, end) })
				w.post("order/1", event("add", "a"))
				began := time.Now()
				if failed := w.handle(w.receive(batchSize), c.timeout); len(failed) != 0 {
					t.Errorf("failed %q, want none", failed)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("the batch took %v, want %v", took, c.want)
				}
				if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "early acknowledgement failed, will acknowledge with the batch") || !strings.Contains(got, c.wantLogged) {
					t.Errorf("the log is %q, want one line about the failed acknowledgement: %s", got, c.wantLogged)
				}
				w.wantLog(t, "order/1", "a")
				w.run(t)
				w.wantLog(t, "order/1", "a")
			})
		})
	}
}
