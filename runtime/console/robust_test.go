package console_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// loads is a store with a different Load method.
type loads struct {
	console.Store
	load func(ctx context.Context) error
}

func (l loads) Load(ctx context.Context, id instances.ID) (instances.Record, error) {
	if err := l.load(ctx); err != nil {
		return instances.Record{}, err
	}
	return l.Store.Load(ctx, id)
}

// A user's code decodes the context, and may panic.
func TestAPanicDoesNotEndTheServer(t *testing.T) {
	t.Parallel()
	breaks := func(c *console.Config) {
		c.Store = loads{c.Store, func(context.Context) error { panic("broken decoder") }}
	}
	inWorld(t, breaks, func(t *testing.T, w *world) {
		contains(t, w.follow("instances/order/1", time.Second), "panic: a value of the type string")
	})
}

// hangingCount is a store that never finishes counting the instances of the machine.
type hangingCount struct {
	console.Store
	machine string
}

func (h hangingCount) Count(ctx context.Context, machine string) (dynamostore.Counts, error) {
	if machine != h.machine {
		return h.Store.Count(ctx, machine)
	}
	<-ctx.Done()
	return dynamostore.Counts{}, ctx.Err()
}

// other returns a second machine, with one state.
func other() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[note]{
		ID: "other", Version: 1, Initial: "a", States: []statechart.State[note]{{ID: "a", Tags: []string{statechart.Settled}}},
	}), durable.MachineConfig{})
}

func TestAMachineThatCannotBeCountedDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	hangs := func(c *console.Config) {
		machines, err := durable.NewMachines(order(), other())
		if err != nil {
			t.Fatal(err)
		}
		c.Machines, c.Store = machines, hangingCount{c.Store, "other"}
	}
	inWorld(t, hangs, func(t *testing.T, w *world) {
		w.send("order/1", place)
		started := time.Now()
		contains(t, textOf(w.page("", 0)), "order version 1 1 –", "other version 1 The store cannot be read. context deadline exceeded")
		if took := time.Since(started); took > 6*time.Second {
			t.Errorf("expected the page after 5 seconds, got it after %v", took)
		}
	})
}

// slowOutline is a machine whose chart cannot be laid out before the channel is closed.
type slowOutline struct {
	durable.Machine
	wait chan struct{}
}

func (s slowOutline) Outline() *statechart.Outline {
	<-s.wait
	return s.Machine.Outline()
}

func TestAChartThatIsLaidOutDoesNotDelayOtherPages(t *testing.T) {
	t.Parallel()
	var wait chan struct{}
	slow := func(c *console.Config) {
		wait = make(chan struct{})
		machines, err := durable.NewMachines(order(), slowOutline{other(), wait})
		if err != nil {
			t.Fatal(err)
		}
		c.Machines = machines
	}
	inWorld(t, slow, func(t *testing.T, w *world) {
		w.send("order/1", place)
		pages := make(chan string)
		go func() { pages <- w.call("machines/other", nil).Body.String() }()
		synctest.Wait()
		contains(t, w.page("instances/order/1", 0), "work.waiting")
		close(wait)
		contains(t, <-pages, `data-path="a"`)
	})
}

func TestAPageIsReadSoonAfterAReadThatHung(t *testing.T) {
	t.Parallel()
	var recovered atomic.Bool
	hangs := func(c *console.Config) {
		c.Store = loads{c.Store, func(ctx context.Context) error {
			if recovered.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
	}
	inWorld(t, hangs, func(t *testing.T, w *world) {
		w.send("order/1", place)
		r, end := w.stream("instances/order/1")
		defer end()
		time.Sleep(25 * time.Second) // The read ends after 20 seconds.
		recovered.Store(true)
		time.Sleep(30 * time.Second)
		contains(t, r.text(), "work.waiting")
	})
}

// The page is read once a minute.
func TestAStreamIsNeverSilentForLong(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Poll = time.Minute }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		sent := w.follow("instances/order/1", 31*time.Second)
		if got := strings.Count(sent, "data: "); got < 6 {
			t.Errorf("expected a message every five seconds, got %d in 31 seconds", got)
		}
		first := strings.Split(sent, ",")[1]
		if got := strings.Count(sent, first); !strings.HasPrefix(first, `"read":`) || got != strings.Count(sent, "data: ") {
			t.Errorf("expected the time of the only read, %s, in each message, got it %d times", first, got)
		}
	})
}

func TestOnlyPagesThatFollowTheStoreHaveAStream(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // A stream does not end on its own.
		defer cancel()
		for path, method := range map[string]string{
			"parked": http.MethodGet, "machines/order?only=stuck": http.MethodGet, "instances/order/1/events/CANCEL": http.MethodGet, "instances/order/1": http.MethodHead,
		} {
			got := w.call("live/"+path, func(r *http.Request) {
				r.Method = method
				*r = *r.WithContext(ctx)
			})
			if got.Code != http.StatusNotFound {
				t.Errorf("%s %s: got %d, want 404", method, path, got.Code)
			}
		}
	})
}

// contextual is a dead-letter queue whose Count fails once its context has ended.
type contextual struct{ console.DeadLetters }

func (c contextual) Count(ctx context.Context) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return 7, nil
}

func TestAClientThatLeavesDoesNotChangeTheCountOfOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.DeadLetters = contextual{c.DeadLetters} }, func(t *testing.T, w *world) {
		w.call("", func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			*r = *r.WithContext(ctx)
		})
		contains(t, textOf(w.page("", 0)), "Parked 7")
	})
}

func TestADeeplyNestedBodyIsShownAsText(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", `{"type": "NOPE", "deep": `+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`)
		contains(t, w.page("parked", 0), strings.Repeat("[", 500))
	})
}
