package durable_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// takenAlias is the payload of the event that reports an alias as taken.
type takenAlias struct {
	Alias string `json:"alias"`
}

// caller is a machine that claims the item of "add" as an alias. It logs each alias that another instance owns.
func (w *world) caller() durable.Machine {
	refused := statechart.Assign("refused", func(b *basket, e takenAlias) { b.Log = append(b.Log, "taken: "+e.Alias) })
	return callerOf(on{Event: durable.AliasTaken, Actions: do{refused}})
}

// callerOf returns the machine `caller` with additional handlers.
func callerOf(more ...on) durable.Machine {
	p := payloads()
	if len(more) > 0 {
		p[durable.AliasTaken] = statechart.PayloadOf[takenAlias]()
	}
	claim := statechart.Alias(func(b basket, e statechart.Event) string { return e.Payload.(item).Item })
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "caller", Version: 1, Initial: "open", Payloads: p,
		States: []chartState{
			{ID: "open", Tags: settled, On: append([]on{{Event: "add", Actions: do{claim}}, {Event: "finish", Target: "closed"}}, more...)},
			{ID: "closed", Type: statechart.Final},
		},
	}), durable.MachineConfig{Retention: time.Hour})
}

func inCallerWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(w.caller())
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		test(t, w)
	})
}

func TestAnAliasBelongsToTheFirstUntilItEnds(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		w.post("caller/2", event("add", "x-7"))
		w.run(t)
		if owner := w.aliases["x-7"]; owner != "caller/1 946684800000" {
			t.Errorf("want caller/1 to have the alias, got %s", owner)
		}
		w.wantLog(t, "caller/1")
		w.wantLog(t, "caller/2", "taken: x-7")
		if got := w.load("caller/2").Aliases; len(got) != 0 {
			t.Errorf("the record lists %q, want no refused alias", got)
		}
		if got := w.load("caller/1").Aliases; !slices.Equal(got, []string{"x-7"}) {
			t.Errorf("want the alias in the record, got %q", got)
		}
		w.post("caller/2", event("finish", ""))
		w.run(t)
		if until := w.released["x-7"]; until != "" {
			t.Errorf("the alias was released %s when another instance ended, want it kept", until)
		}
		w.post("caller/1", event("finish", ""))
		w.run(t)
		want := fmt.Sprint("until ", w.load("caller/1").ExpireAt.UnixMilli())
		if owner, until := w.aliases["x-7"], w.released["x-7"]; owner != "caller/1 946684800000" || until != want {
			t.Errorf("want owner caller/1 and release at %s, when the item expires; got owner %s, release at %q", want, owner, until)
		}
		w.post("caller/3", event("add", "x-7"))
		w.run(t)
		if owner, until := w.aliases["x-7"], w.released["x-7"]; !strings.HasPrefix(owner, "caller/3 ") || until != "" {
			t.Errorf("want the next claimant to own the alias of an ended instance, got owner %s, release at %q", owner, until)
		}
		w.wantLog(t, "caller/3")
		w.wantSound(t)
	})
}

func TestAliasesAreClaimedAndReleasedWhateverCallFails(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, hook func(string) fault) (calls int) {
		t.Helper()
		inCallerWorld(t, func(t *testing.T, w *world) {
			w.hook = hook
			w.post("caller/1", event("add", "x-7"), event("add", "x-8"))
			w.run(t)
			if len(w.aliases) != 2 {
				t.Errorf("want two aliases, got %v", w.aliases)
			}
			w.post("caller/1", event("finish", ""))
			w.run(t)
			if len(w.released) != 2 || len(w.load("caller/1").Outbox) != 0 {
				t.Errorf("want both aliases released and no outbox left, got %v and %v", w.released, w.load("caller/1").Outbox)
			}
			w.wantLog(t, "caller/1")
			calls = len(w.calls)
		})
		return calls
	}
	calls := play(t, nil)
	for _, kind := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
		for at := 1; at <= calls; at++ {
			n := 0
			play(t, func(string) fault {
				if n++; n == at {
					return kind
				}
				return none
			})
		}
	}
}

// stuck returns a hook. For the duration d from now, the hook fails every call with this name.
func stuck(name string, d time.Duration) func(call string) fault {
	began := time.Now()
	return func(call string) fault {
		if call == name && time.Since(began) < d {
			return failBefore
		}
		return none
	}
}

func TestAnAliasThatIsTakenIsToldOnceHoweverLongTheOutboxIsStuck(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		w.hook = stuck("ClearOutbox caller/2", 20*time.Minute)
		w.post("caller/2", event("add", "x-7"))
		w.run(t)
		if sent := w.counted("Send caller/2"); sent < 3 {
			t.Fatalf("got %d sends, want the outbox to be retried many times", sent)
		}
		w.wantLog(t, "caller/2", "taken: x-7")
	})
}

// The loop logs the taken alias as an error, unless the chart handles the event.
func TestAPersonIsToldOfATakenAliasUnlessTheChartHearsOfIt(t *testing.T) {
	t.Parallel()
	for level, more := range map[string][]on{"ERROR": nil, "INFO": {{Event: durable.AliasTaken}}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var log bytes.Buffer
			w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
			machines, err := durable.NewMachines(callerOf(more...))
			if err != nil {
				t.Fatal(err)
			}
			w.machines = machines
			w.post("caller/1", event("add", "x-7"))
			w.run(t)
			w.post("caller/2", event("add", "x-7"))
			w.run(t)
			if line := `level=` + level + ` msg="alias is taken" instance=caller/2 alias=x-7`; strings.Count(log.String(), line) != 1 {
				t.Errorf("want the line %q once, got %s", line, &log)
			}
		})
	}
}

// An active instance releases its alias, and another instance claims it. A release of an alias that the instance does
// not have changes nothing.
func TestAnAliasThatAChartReleasesIsFreeForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		unalias := statechart.Unalias(func(_ basket, e statechart.Event) string { return e.Payload.(item).Item })
		refused := statechart.Assign("refused", func(b *basket, e takenAlias) { b.Log = append(b.Log, "taken: "+e.Alias) })
		w.host(t, callerOf(on{Event: "cancel", Actions: do{unalias}}, on{Event: durable.AliasTaken, Actions: do{refused}}))
		w.post("caller/1", event("add", "x-7"), event("cancel", "x-7"))
		w.run(t)
		w.post("caller/2", event("add", "x-7"))
		w.run(t)
		w.post("caller/1", event("cancel", "x-7"))
		w.run(t)
		w.post("caller/3", event("add", "x-7"))
		w.run(t)
		w.wantLog(t, "caller/2")
		w.wantLog(t, "caller/3", "taken: x-7")
		w.wantParked(t)
		w.wantSound(t)
	})
}

// The initial state of an instance claims an alias, and the instance ends at once. The instance is started by an event
// of the chart, or by an event that only passes a task token.
func TestAnInstanceThatEndsAsItBeginsReleasesItsAliases(t *testing.T) {
	t.Parallel()
	for _, isTask := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			claim := statechart.Alias(func(basket, statechart.Event) string { return "k" })
			w.host(t, w.caller(), durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "flash", Version: 1, Initial: "lit", Payloads: payloads(),
				States: []chartState{
					{ID: "lit", Entry: do{claim}, Always: []on{{Target: "out"}}},
					{ID: "out", Type: statechart.Final},
				},
			}), durable.MachineConfig{}))
			first := event("add", "")
			if isTask {
				first = fmt.Sprintf(`{"type": %q, "$task": %s}`, durable.WaitEvent, w.wait("t1", "Wait", 0, 0))
			}
			w.post("flash/1", first)
			w.run(t)
			if r := w.load("flash/1"); r.Status != statechart.Done || len(r.Aliases) > 0 {
				t.Errorf("want flash/1 done without aliases, got %s with %q", r.Status, r.Aliases)
			}
			w.post("caller/1", event("add", "k"))
			w.run(t)
			w.wantLog(t, "caller/1")
			w.wantParked(t)
		})
	}
}

// An operator keeps an instance, which then ends. Later the operator no longer keeps it, so the retention applies
// again.
func TestAnAliasOfAnUnkeptInstanceExpiresWithTheItem(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		w.operate(t, "caller/1", instances.Operation{Kind: instances.Keep})
		w.post("caller/1", event("finish", ""))
		w.run(t)
		if at := w.load("caller/1").ExpireAt; !at.IsZero() {
			t.Errorf("the kept instance expires at %v", at)
		}
		w.operate(t, "caller/1", instances.Operation{Kind: instances.Unkeep})
		w.run(t)
		if got, want := w.released["x-7"], fmt.Sprint("until ", w.load("caller/1").ExpireAt.UnixMilli()); got != want {
			t.Errorf("the alias is released %q, want %q", got, want)
		}
	})
}

// misfit is a wrong payload for alias.taken: in the loop's event, the alias is a string.
type misfit struct {
	Alias int `json:"alias"`
}

func TestAnEventOfTheLoopThatTheChartDeclaresWronglyIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := payloads()
		p[durable.AliasTaken] = statechart.PayloadOf[misfit]()
		claim := statechart.Alias(func(_ basket, e statechart.Event) string { return e.Payload.(item).Item })
		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "courier", Version: 1, Initial: "idle", Payloads: p,
			On:     []on{{Event: durable.AliasTaken}, {Event: "add", Actions: do{keep}}},
			States: []chartState{{ID: "idle", Tags: settled, On: []on{{Event: "ship", Actions: do{claim}}}}},
		}), durable.MachineConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.post(courier1, event("ship", "x-7"))
		w.post("courier/2", event("ship", "x-7"))
		w.invoke()
		w.post("courier/2", event("add", "ball"))
		w.runFor(t, time.Minute)
		w.wantLog(t, "courier/2", "ball")
		w.wantParked(t, [2]string{"settle.alias.taken", `decoding "alias.taken" as the chart declares it`})
	})
}

// The table always refuses the alias, for example because the alias is too long. The message that reports the alias as
// taken is forged.
func TestAForgedMessageAboutARefusedAliasBlocksNothing(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.refuse = refusing(durable.ErrRefused, "Claim x-7")
		w.post(courier1, event("ship", "x-7"))
		w.runFor(t, time.Second)
		w.post(courier1, fmt.Sprintf(`{"type":"settle.alias.taken","alias":"x-7","$incarnation":%d}`, w.load(courier1).CreatedAt.UnixMilli()), event("add", "ball"))
		w.runFor(t, time.Second)
		if log := w.logOf(t, courier1); !slices.Contains(log, "ball") || len(w.delays) > 0 {
			t.Errorf("want the next event applied at once, got the log %q and the delays %v", log, w.delays)
		}
	})
}
