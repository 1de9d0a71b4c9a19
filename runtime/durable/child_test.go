package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

var ship = event("ship", "parcel")

func TestAChildBeginsWithItsInputAndItsEndReachesItsParent(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship, `{"type":"tell","item":"fast"}`)
		w.run(t)
		van := w.van(t)
		w.wantFamily(t, "courier active, radio active")
		w.wantLog(t, van, "parcel", "board ok", "fast")
		w.wantState(t, boss1, "shipping")
		parent := w.load(van).Parent
		if want := (instances.Parent{Instance: boss1, Incarnation: w.load(boss1).CreatedAt.UnixMilli(), Child: "2.0"}); parent == nil || *parent != want {
			t.Errorf("the parent is %+v, want %+v", parent, want)
		}
		w.post(boss1, event("finish", ""))
		w.run(t)
		w.wantState(t, boss1, "idle")
		w.wantFamily(t, "courier done, radio stopped", `back "parcel board ok fast"`)
		w.wantLog(t, "order/9", "leave of parcel")
		w.wantParked(t)
		if r := w.load(boss1); r.Ignored != 0 || strings.Contains(string(r.Snapshot), "van") {
			t.Errorf("%d events ignored, and the snapshot is %s", r.Ignored, r.Snapshot)
		}
	})
}

func TestTheHistoryOfAChildBeginsWithItsStart(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		var logged bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		history := w.load(van).History
		if len(history) == 0 || history[0].Event != "settle.start" || history[0].From == nil || len(history[0].From) != 0 || len(history[0].To) != 1 {
			t.Errorf("the history is %+v, want the start first, from no state", history)
		}
		if want := "msg=transition instance=" + van + " event=settle.start from=[]"; !strings.Contains(logged.String(), want) {
			t.Errorf("the log is\n%s\nwant %q in it", logged.String(), want)
		}
		if first := w.load(boss1).History[0].Event; first != "ship" {
			t.Errorf("the history of an instance without a parent begins with %q, want its first event", first)
		}
	})
}

func TestTheCallsOfAChild(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, `{"type":"both","to":"flash"}`)
		w.run(t)
		flash := w.stored("flash")[0]
		w.wantCalls(t, "Load boss/1", "Commit boss/1", "Send "+flash,
			"Load "+flash, "Load boss/1", "Commit "+flash, "Send boss/1", "ClearOutbox "+flash,
			"Load boss/1", "Commit boss/1")
		w.wantLog(t, boss1, `back "flash"`)
	})
}

func TestNamesOfChildrenAreTheirOwn(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1772366400000)
	parent := instances.ID{Machine: "boss", ID: "1"}
	name := instances.ChildName(parent, at, "2.0", "courier")
	if want := "courier/boss-1-2.0-"; !strings.HasPrefix(name.String(), want) || len(name.String()) != len(want)+32 {
		t.Errorf("want %s and a hash, got %s", want, name)
	}
	seen := map[instances.ID]bool{}
	long := instances.ID{Machine: "boss", ID: strings.Repeat("~", 123)}
	for _, id := range []instances.ID{
		name, instances.ChildName(parent, at, "2.0", "courier"), instances.ChildName(parent, at, "2.1", "courier"),
		instances.ChildName(parent, at.Add(time.Millisecond), "2.0", "courier"), instances.ChildName(parent, at, "2.0", "radio"),
		instances.ChildName(long, at, "2.0", "courier"), instances.ChildName(long, at, "2.1", "courier"),
		instances.ChildName(long, at, "2.0", strings.Repeat("m", 94)),
	} {
		if _, err := instances.ParseID(id.String()); err != nil {
			t.Error(err)
		}
		seen[id] = true
	}
	if len(seen) != 7 {
		t.Errorf("want 7 names, got %d: %v", len(seen), seen)
	}
}

func TestAStartThatFailsReachesTheParent(t *testing.T) {
	t.Parallel()
	for item, reason := range map[string]string{
		"heavy": "wrong payload: the input of chart courier: too heavy",
		"panic": "context: panic: a value of the type string",
	} {
		inFamily(t, func(t *testing.T, w *world) {
			w.post(boss1, event("ship", item))
			w.run(t)
			w.wantState(t, boss1, "idle")
			if log := w.logOf(t, boss1); len(log) != 1 || !strings.HasPrefix(log[0], "lost courier: ") || !strings.Contains(log[0], reason) {
				t.Errorf("boss/1 logged %q, want the lost courier: %s", log, reason)
			}
			w.wantFamily(t, "courier stopped", w.logOf(t, boss1)...) // The parent stops the courier, in case it has started after all.
			w.wantParked(t)
		})
	}
}

func TestAChildThatCannotSettleAtItsStartIsGivenUpAndStopped(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.third["board"] = func(context.Context, statechart.Call) (string, error) {
			return "", statechart.Permanent(errors.New("no boat"))
		}
		w.post(boss1, ship)
		w.run(t)
		w.wantState(t, boss1, "idle")
		if log := w.logOf(t, boss1); len(log) != 1 || !strings.Contains(log[0], "broken down") {
			t.Errorf("boss/1 logged %q", log)
		}
		for _, name := range w.stored("courier") {
			if status := w.load(name).Status; status != statechart.Stopped {
				t.Errorf("%s is %s", name, status)
			}
		}
		w.wantParked(t)
	})
}

func TestAnUnhostedMachineIsRefusedToTheParent(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, `{"type":"both","to":"nobody"}`, event("add", "a"))
		w.run(t)
		w.wantLog(t, boss1, "a", `lost nobody: it cannot be a child: unknown machine: expected one of boss, courier, flash, order, radio, got "nobody"`)
		w.wantParked(t)
	})
}

func TestLeavingAStateOrEndingStopsTheChildAndItsOwn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "doom"} {
		inFamily(t, func(t *testing.T, w *world) {
			w.post(boss1, ship)
			w.run(t)
			van := w.van(t)
			w.post(van, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
			w.run(t)
			w.post(boss1, event(how, ""))
			w.run(t)
			w.wantFamily(t, "courier stopped, radio stopped")
			w.wantState(t, van, "driving")
			w.wantLog(t, "order/9", "leave of parcel")
			if answer := w.answers("task"); !strings.Contains(answer, durable.ErrorEnded) {
				t.Errorf("the task was answered %q", answer)
			}
			r := w.load(van)
			if r.ExpireAt.IsZero() || r.History[len(r.History)-1].Event != "settle.stop" {
				t.Errorf("expires at %v, history %+v", r.ExpireAt, r.History)
			}
			w.post(van, event("add", "late"))
			w.run(t)
			if r := w.load(van); r.Ignored != 1 {
				t.Errorf("%d events ignored, want 1", r.Ignored)
			}
			w.wantParked(t)
		})
	}
}

func TestAChildThatIsBegunAnewIsAnother(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		w.post(boss1, `{"type":"again","item":"second"}`)
		w.run(t)
		w.wantFamily(t, "courier active, courier stopped, radio active, radio stopped")
		w.wantLog(t, w.van(t), "second", "board ok")
	})
}

// Each message between parent, child and grandchild is delivered again an hour later. By then, only the instances can
// recognise the duplicate.
func TestEveryMessageMayComeAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"finish", "cancel"} {
		inFamily(t, func(t *testing.T, w *world) {
			var sent []durable.Delivery
			collect := func() {
				w.hook = func(call string) fault {
					for _, m := range w.messages {
						if !slices.ContainsFunc(sent, func(d durable.Delivery) bool { return d.MessageID == m.MessageID }) {
							sent = append(sent, m.Delivery)
						}
					}
					return none
				}
			}
			collect()
			w.post(boss1, ship, `{"type":"tell","item":"fast"}`)
			w.run(t)
			again := func() {
				w.hook = nil
				for _, m := range sent {
					if strings.Contains(m.Body, `settle.`) || strings.Contains(m.Body, "$parent") {
						w.post(m.Group, m.Body)
					}
				}
			}
			again()
			w.run(t)
			w.wantFamily(t, "courier active, radio active")
			w.wantLog(t, w.van(t), "parcel", "board ok", "fast")
			collect()
			w.post(boss1, event(how, ""))
			w.run(t)
			time.Sleep(time.Hour)
			again()
			w.run(t)
			if messages := map[string]int{"finish": 10, "cancel": 9}[how]; len(sent) != messages {
				t.Errorf("%d messages seen, want %d", len(sent), messages)
			}
			if how == "finish" {
				w.wantFamily(t, "courier done, radio stopped", `back "parcel board ok fast"`)
			} else {
				w.wantFamily(t, "courier stopped, radio stopped")
			}
			w.wantLog(t, "order/9", "leave of parcel")
			w.wantParked(t)
			if n := w.load(boss1).Ignored; n != 0 {
				t.Errorf("%d events of boss/1 ignored", n)
			}
		})
	}
}

func TestAnOutputThatDoesNotFitIsAFailure(t *testing.T) {
	t.Parallel()
	for limit, c := range map[int]struct {
		bytes int
		log   string
	}{
		80_000:  {90_000, "lost courier: it is done, but its output of 90017 bytes does not fit into boss/1: "},
		600_000: {instances.EventBytesMax, "is done, but its output has 262161 bytes, the limit is 262144 (EventBytesMax)"},
	} {
		inFamily(t, func(t *testing.T, w *world) {
			w.config.SnapshotBytesMax = 600_000
			w.post(boss1, ship)
			w.run(t)
			w.post(w.van(t), fmt.Sprintf(`{"type":"grow","bytes":%d}`, c.bytes))
			w.invoke()
			w.config.SnapshotBytesMax = limit
			w.run(t)
			if log := w.logOf(t, boss1); len(log) != 1 || !strings.Contains(log[0], c.log) {
				t.Errorf("boss/1 logged %.300q, want %q", log, c.log)
			}
			w.wantState(t, boss1, "idle")
			w.wantParked(t)
		})
	}
}

// The chart of the child stays in a service that never answers.
func TestAStuckChildIsStopped(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.third["hang"] = hangs
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		w.post(van, event("wait", ""))
		w.runFor(t, time.Hour)
		w.post(boss1, event("cancel", ""))
		w.run(t)
		w.wantFamily(t, "courier stopped, radio stopped")
		w.wantParked(t)
	})
}

func TestMachinesThatDoNotFitTogetherAreRefused(t *testing.T) {
	t.Parallel()
	host := func(def statechart.Definition[basket]) durable.Machine {
		def.Version, def.Initial = 1, "a"
		return durable.Host(statechart.Must(def), durable.MachineConfig{})
	}
	spawning := func(machine string) []chartState {
		return []chartState{{ID: "a", Tags: settled, Entry: do{statechart.Spawn[basket]("w", machine, nil)}}}
	}
	long := strings.Repeat("m", 95)
	for message, set := range map[string][]durable.Machine{
		`machine "m" has child instances of machine "order": it cannot be a child: unknown machine: expected one of m, got "order": host both, or correct the name in its chart`: {
			host(statechart.Definition[basket]{ID: "m", States: spawning("order")})},
		`machine "m" gives a child of machine "w" an input, but that machine takes none: declare Input in its chart, or remove Input from the child`: {
			host(statechart.Definition[basket]{ID: "m", States: []chartState{{ID: "a", Tags: settled, Children: []statechart.Child[basket]{{Machine: "w", Input: func(basket, statechart.Event) any { return 1 }}}}}}),
			host(statechart.Definition[basket]{ID: "w", States: []chartState{{ID: "a", Tags: settled}}})},
		`machine "m" gives a child of machine "w" no input, but that machine needs one: set Input of the child: wrong payload: the input of chart w: expected a whole number of 64 bits, got nothing`: {
			host(statechart.Definition[basket]{ID: "m", States: spawning("w")}),
			host(statechart.Definition[basket]{ID: "w", Input: statechart.PayloadOf[int](), States: []chartState{{ID: "a", Tags: settled}}})},
		`machine "m" starts with an Input, which only a parent sends, and no hosted machine spawns it: host such a machine, or read the data from the first event`: {
			host(statechart.Definition[basket]{ID: "m", Input: statechart.PayloadOf[item](), States: []chartState{{ID: "a", Tags: settled}}})},
		`its name would be wrong`: {
			host(statechart.Definition[basket]{ID: "m", States: spawning(long)}), host(statechart.Definition[basket]{ID: long, States: []chartState{{ID: "a", Tags: settled}}})},
	} {
		if _, err := durable.NewMachines(set...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got the error %v, want %s", err, message)
		}
	}
}
