package durable_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/tracing"
)

// heard is an observer that logs the events it observes and the activities around them.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) observer() durable.Observer {
	return durable.Observer{
		Applied: func(_ context.Context, a durable.Applied) {
			h.note("applied %s to %s revision %d %v to %v attempts %d after %v settled %v resumed %v", a.Event, a.Delivery.Group, a.Revision, a.From, a.To, a.Attempts, a.Duration, a.Settled, a.Resumed)
		},
		Parked: func(_ context.Context, p durable.Parked) { h.note("parked %s of %s", p.Event, p.Delivery.Group) },
		Retried: func(_ context.Context, r durable.Retried) {
			if r.Behind > 0 {
				h.note("retried after %v with %d behind it", r.Wait, r.Behind)
				return
			}
			h.note("retried after %v", r.Wait)
		},
		Committed: func(_ context.Context, c durable.Committed) {
			h.note("committed %d with %d effects", c.Revision, c.Effects)
		},
		Conflict: func(_ context.Context, instance string) { h.note("conflict of %s", instance) },
		Skipped:  func(_ context.Context, d durable.Delivery) { h.note("skipped %s", d.Body) },
		Loaded: func(_ context.Context, l durable.Loaded) {
			if l.Unsettled+l.Outbox > 0 {
				h.note("unsettled for %v, outbox of %v", l.Unsettled, l.Outbox)
			}
		},
		Performed: func(_ context.Context, p durable.Performed) { h.note("performed %s, failed %v", p.Kind, p.Err != nil) },
	}
}

func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(h.lines, want) {
		t.Errorf("heard\n  %s\nwant\n  %s", strings.Join(h.lines, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestAnObserverHearsOfRetriesUntilTheInstanceHasSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), &heard{}
		w.config.Observer = h.observer()
		w.third["charge"] = failing(2, errors.New("busy"))
		w.post("order/1", event("charge", ""))
		for range 3 {
			w.invoke()
			time.Sleep(10 * time.Second)
		}
		h.want(t,
			"committed 1 with 0 effects",
			"applied charge to order/1 revision 1 [] to [charging] attempts 1 after 0s settled false resumed false",
			"retried after 5s",
			"unsettled for 10s, outbox of 0s",
			"committed 2 with 0 effects", // This commit stores the count of the second try.
			"committed 3 with 0 effects", // This commit stores the attempt of the second try.
			"retried after 10s",
			"unsettled for 20s, outbox of 0s", // The commits in between do not reset the time.
			"committed 4 with 0 effects",
			"committed 5 with 0 effects",
			"applied resume to order/1 revision 5 [charging] to [idle] attempts 3 after 0s settled true resumed true",
			"skipped "+event("charge", ""), // The event is already applied, and the instance has settled.
		)
	})
}

func TestAnObserverHearsOfEachStoredTransitionOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var heard []instances.Transition
		var events []statechart.Event
		var bodies []string
		revision := int64(0)
		w.config.Observer.Committed = func(_ context.Context, c durable.Committed) {
			heard, events, revision = append(heard, c.Transitions...), append(events, c.Events...), c.Revision
			bodies = append(bodies, c.Bodies...)
			if stored := w.load("order/1"); !reflect.DeepEqual(c.Record, stored) {
				t.Errorf("got the record %+v, want the stored one: %+v", c.Record, stored)
			}
		}
		w.third["charge"] = failing(1, errors.New("busy"))
		w.post("order/1", event("add", "a"), event("charge", ""), event("add", "b"))
		w.hook = faults(map[string]fault{"Commit order/1 #2": failBefore})
		w.run(t)
		if stored := w.load("order/1"); !reflect.DeepEqual(heard, stored.History) || revision != stored.Revision || len(heard) != 4 {
			t.Errorf("got the transitions %+v up to revision %d, want the four stored ones up to revision %d: %+v", heard, revision, stored.Revision, stored.History)
		}
		var got []string
		for _, e := range events {
			got = append(got, fmt.Sprintf("%s %+v %s", e.Type, e.Payload, e.Invocation))
		}
		if want := []string{"add {Item:a To: Bytes:0} ", "charge {Item: To: Bytes:0} ", "done.invoke.charging charge ok 3.0", "add {Item:b To: Bytes:0} "}; !slices.Equal(got, want) {
			t.Errorf("got the events %q, want %q", got, want)
		}
		if want := []string{event("add", "a"), event("charge", ""), "", event("add", "b")}; !slices.Equal(bodies, want) {
			t.Errorf("got the messages %q, want %q", bodies, want)
		}
	})
}

func TestAnObserverHearsOfEffectsConflictsAndWhatIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), &heard{}
		w.config.Observer = h.observer()
		w.post("order/1", telling("order/2", "a"), `{"type":"unheard of"}`)
		w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore})
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.hook = w.rival("order/1", 1, func() { w.deliver("another queue", "order/1", [2]string{"1", event("add", "rival")}) })
		w.invoke()
		for _, want := range []string{
			"parked unheard of of order/1", "committed 1 with 2 effects", // The effects are the send and the parking.
			"applied tell to order/1 revision 1 [] to [idle] attempts 1 after 0s settled true resumed false",
			"performed send, failed true", "unsettled for 0s, outbox of " + visibilityTimeout.String(), "performed send, failed false",
		} {
			if !slices.Contains(h.lines, want) {
				t.Errorf("want the observation %q, got\n  %s", want, strings.Join(h.lines, "\n  "))
			}
		}
		w.post("order/1", event("add", "b"))
		w.hook = w.rival("order/1", 1, func() { w.deliver("another queue", "order/1", [2]string{"2", event("add", "rival")}) })
		h.lines = nil
		w.invoke()
		if !slices.Contains(h.lines, "conflict of order/1") {
			t.Errorf("want the conflict observed, got\n  %s", strings.Join(h.lines, "\n  "))
		}
		applied := 0
		for _, line := range h.lines {
			if strings.HasPrefix(line, "applied add to order/1") {
				applied++
			}
		}
		if applied != 2 {
			t.Errorf("observed %d events, want one per writer:\n  %s", applied, strings.Join(h.lines, "\n  "))
		}
	})
}

func TestAnObserverThatPanicsStopsNoOtherGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.Observer.Conflict = func(context.Context, string) { panic("conflict") }
		w.config.Observer.Retried = func(context.Context, durable.Retried) { panic("retried") }
		w.post("order/1", event("add", "a"))
		w.post("order/2", event("refuse", ""), event("add", "b"))
		w.hook = w.rival("order/1", 1, func() {
			w.deliver("another queue", "order/1", [2]string{"1", event("add", "in between")})
		})
		w.run(t)
		w.wantLog(t, "order/1", "in between", "a")
		w.wantLog(t, "order/2", "b")
		w.wantParked(t, [2]string{event("refuse", ""), "refused"})
	})
}

// Three events of three traces are in one turn. Each send and each service belongs to the trace of its own event.
func TestEffectsAndServicesBelongToTheTraceOfTheirEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var begun []string
		w.config.Observer.Begin = func(ctx context.Context, a tracing.Activity) (context.Context, func(error)) {
			if a.Trace == (tracing.Trace{}) {
				a.Trace = tracing.Of(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			if a.Kind != tracing.Turn && a.Instance == "order/1" {
				begun = append(begun, fmt.Sprintf("%s %s of %s", a.Kind, a.Name, a.Trace.Parent))
			}
			return tracing.With(ctx, a.Trace), func(error) {}
		}
		w.third["charge"] = failing(0, nil)
		w.post("order/1", telling("order/2", "a"), telling("order/3", "b"), event("charge", ""))
		w.mu.Lock()
		batch := w.receive(batchSize)
		w.mu.Unlock()
		for i, trace := range []string{"red", "blue", "green"} {
			batch[i].Trace = tracing.Trace{Parent: trace}
		}
		w.handle(batch, functionTimeout)
		want := []string{"event tell of red", "event tell of blue", "event charge of green", "effect send of red", "effect send of blue", "event charge of green", "service charge of green"}
		if !slices.Equal(begun, want) {
			t.Errorf("begun\n  %s\nwant\n  %s", strings.Join(begun, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

func TestAnActivityThatPanicsEndsWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), &heard{}
		w.config.Observer.Begin = func(ctx context.Context, a tracing.Activity) (context.Context, func(error)) {
			return ctx, func(err error) { h.note("%s ends with %v", a.Kind, err) }
		}
		panics := true
		w.hook = func(call string) fault {
			if strings.HasPrefix(call, "Send ") && panics {
				panics = false
				panic("no client")
			}
			return none
		}
		w.post("order/1", telling("order/2", "a"))
		w.invoke()
		h.want(t, "event ends with <nil>", "effect ends with panic", "turn ends with panic")
	})
}
