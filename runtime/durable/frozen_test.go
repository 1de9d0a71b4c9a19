package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// frozenBefore returns a hook that freezes the process before its nth call of this name, until `run` returns. No
// process takes a lease, because a frozen process cannot take one.
func (w *world) frozenBefore(name string, nth int, run func()) func(call string) fault {
	w.config.SlowAfter = time.Hour
	calls := 0
	return func(call string) fault {
		if call == name {
			if calls++; calls == nth {
				w.mu.Unlock()
				run()
				w.mu.Lock()
			}
		}
		return none
	}
}

// A process freezes before it commits an event. A second process hosts a broken chart and parks the event, but cannot
// acknowledge it. Then the first one wakes up, and an operator redrives the parked event.
func TestAnEventIsEitherAppliedOrParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first       string
		attemptsMax int
	}{
		"of an instance": {first: event("tell", ""), attemptsMax: 1},
		// The second process stores neither the instance nor a count of the try.
		"that begins its instance": {attemptsMax: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.config.AttemptsMax = c.attemptsMax
				broken := false
				add := statechart.TryAssign("add", func(b *basket, i item) error {
					if broken {
						return errFault
					}
					b.Log = append(b.Log, i.Item)
					return nil
				})
				w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
					ID: "shelf", Version: 1, Initial: "idle", Payloads: payloads(),
					States: []chartState{{ID: "idle", Tags: settled, On: []on{{Event: "tell"}, {Event: "add", Actions: do{add}}}}},
				}), durable.MachineConfig{}))
				if c.first != "" {
					w.post("shelf/1", strings.Replace(c.first, `"item": ""`, `"item": "x", "to": "order/9"`, 1))
					w.run(t)
				}
				w.post("shelf/1", event("add", "a"))
				w.hook = w.frozenBefore("Commit shelf/1", 1, func() {
					broken = true
					w.hook = faults(map[string]fault{"Acknowledge shelf/1 #1": failBefore})
					time.Sleep(visibilityTimeout)
					w.invoke()
					broken = false
				})
				w.invoke()
				w.hook = nil
				w.run(t)
				for _, p := range w.parked {
					copied := p.Delivery
					copied.ParkedFrom = instances.Place{Queue: copied.Queue, SequenceNumber: copied.SequenceNumber}
					copied.MessageID, copied.SequenceNumber, copied.DeduplicationID, copied.ReceiveCount = "copy", "999", "copy", 1
					w.handle([]durable.Delivery{copied}, functionTimeout)
				}
				w.wantLog(t, "shelf/1", "a")
				if len(w.parked) == 0 {
					t.Error("the event was not parked: the test proves nothing")
				}
			})
		})
	}
}

// A process freezes before it answers a task whose execution is unknown. A second process gives the answer, and dies
// before it stores that the task is answered. When the first process wakes up, Step Functions returns the same error as
// for a task that has timed out.
func TestATaskIsNotToldExpiredAfterItsAnswer(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.post(parcel1, fmt.Sprintf(`{"type": "hurry", "$task": %s}`, w.anonymous("t1", "HandOver")))
		w.hook = w.frozenBefore("Answer HandOver", 1, func() {
			time.Sleep(visibilityTimeout)
			isAnswered := false
			w.hook = func(call string) fault {
				isAnswered = isAnswered || call == "Answer HandOver"
				if isAnswered && call == "ClearOutbox parcel/1" {
					return dieBefore
				}
				return none
			}
			w.invoke()
			w.hook = nil
			w.wantAnswer(t, "t1", handed)
		})
		w.handle(w.receive(batchSize), time.Hour) // The deadline must not stop the first process when it wakes up.
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.wantNoTokens(t)
		if got := w.snapshotLog(t); len(got) > 0 {
			t.Errorf("the chart logged %q, want nothing", got)
		}
	})
}

// A process freezes between its two commits of one event. Meanwhile a second process drains and clears the outbox of
// the first commit. When the first process wakes up, its commit conflicts, and the process dies.
func TestAClearedOutboxDoesNotComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "post", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "tell", Target: "one", Actions: do{tell}}}},
				{ID: "one", Invoke: []invoke{{Service: w.service("one"), OnDone: []on{{Target: "two"}}, OnError: []on{{Target: "idle"}}}}},
				{ID: "two", Invoke: []invoke{{Service: w.service("two"), OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}}},
			},
		}), durable.MachineConfig{}))
		w.post("post/1", telling("order/2", "a"))
		w.hook = w.frozenBefore("Commit post/1", 2, func() {
			w.hook = nil
			w.deliver("another queue", "post/1", [2]string{"1", `{"type": "unknown"}`}) // This delivery drains the outbox.
			w.hook = func(call string) fault {
				if strings.HasPrefix(call, "Load ") {
					return dieBefore // The frozen process dies when it loads the instance again after the conflict.
				}
				return none
			}
		})
		w.invoke()
		record := w.load("post/1")
		w.hook = nil
		if record.Owes() && len(w.messages) == 0 {
			t.Errorf("the outbox holds %+v, and no message is left that would drain it", record.Outbox)
		}
		w.run(t)
		w.wantLog(t, "order/2", "a")
		if w.load("post/1").Owes() {
			t.Errorf("the outbox holds %+v at the end", w.load("post/1").Outbox)
		}
	})
}

// The store refuses an alias to an instance, and then the owner of the alias releases it. The instance gets the alias
// by a second claim or by the retry of the first, so its chart receives no alias.taken.
func TestARefusedAliasThatIsGrantedLaterIsNotLost(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"claimed again": true, "the claim is repeated": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCallerWorld(t, func(t *testing.T, w *world) {
				w.post("caller/2", event("add", "k"))
				w.run(t)
				w.hook = faults(map[string]fault{"ClearOutbox caller/1 #1": failBefore})
				if again {
					w.hook = w.frozenBefore("Send caller/1", 1, func() { // The process freezes before it sends the refusal.
						w.hook = nil
						w.post("caller/2", event("finish", ""))
						w.invoke()
						w.post("caller/1", event("add", "k"))
					})
				}
				w.post("caller/1", event("add", "k"))
				w.invoke()
				w.hook = nil
				w.post("caller/2", event("finish", ""))
				w.run(t)
				w.wantLog(t, "caller/1") // The chart receives no alias.taken.
				if owner := w.aliases["k"]; !strings.HasPrefix(owner, "caller/1 ") || !slices.Equal(w.load("caller/1").Aliases, []string{"k"}) {
					t.Errorf("the owner is %s, and the record of caller/1 lists %q", owner, w.load("caller/1").Aliases)
				}
				w.post("caller/1", event("finish", ""))
				w.run(t)
				w.post("caller/3", event("add", "k"))
				w.run(t)
				w.wantLog(t, "caller/3") // The alias was released.
			})
		})
	}
}

// A process freezes before its claim. When it wakes up, the instance has ended and released the alias.
func TestAProcessThatWasFrozenClaimsNothing(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "k"))
		w.hook = w.frozenBefore("Claim k", 1, func() {
			time.Sleep(visibilityTimeout)
			w.hook = nil
			w.post("caller/1", event("finish", ""))
			w.run(t)
			w.post("caller/2", event("add", "k"), event("finish", ""))
			w.run(t)
		})
		w.invoke()
		w.run(t)
		w.post("caller/3", event("add", "k"))
		w.run(t)
		w.wantLog(t, "caller/3")
		if owner := w.aliases["k"]; !strings.HasPrefix(owner, "caller/3 ") {
			t.Errorf("the owner is %s, want caller/3", owner)
		}
	})
}

// One commit claims an alias and releases it. A process performs the outbox and freezes before it clears the outbox. A
// second process performs the outbox again and dies after the first call.
func TestAProcessThatWasFrozenClearsTheOutboxOfAReleasedAlias(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "k"), event("finish", ""))
		w.hook = w.frozenBefore("ClearOutbox caller/1", 1, func() {
			time.Sleep(visibilityTimeout)
			w.hook = faults(map[string]fault{"Release k #1": dieAfter})
			w.invoke()
			w.hook = nil
		})
		w.invoke()
		w.run(t)
		w.post("caller/2", event("add", "k"))
		w.run(t)
		w.wantLog(t, "caller/2") // The alias is free.
	})
}

// The last send of an instance fails for longer than the instance's retention.
func TestTTLDeletesNothingThatOwesEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "brief", Version: 1, Initial: "open", Payloads: payloads(),
			States: []chartState{
				{ID: "open", Tags: settled, On: []on{{Event: "tell", Target: "closed", Actions: do{tell}}}},
				{ID: "closed", Type: statechart.Final},
			},
		}), durable.MachineConfig{Retention: 10 * time.Minute}))
		begun := time.Now()
		w.refuse = func(call string) error {
			if call == "Send order/2" && time.Since(begun) < 30*time.Minute {
				return errors.New("throttled")
			}
			return nil
		}
		w.hook = func(call string) fault { // TTL may delete an item as soon as it has expired.
			record := w.load("brief/1")
			if call == "Load brief/1" && !record.ExpireAt.IsZero() && record.ExpireAt.Before(time.Now()) {
				t.Errorf("after %v TTL deletes an item with %d effects in its outbox", time.Since(begun), len(record.Outbox))
				delete(w.records, "brief/1")
				delete(w.revision, "brief/1")
			}
			return none
		}
		w.post("brief/1", telling("order/2", "a"))
		w.run(t)
		w.wantLog(t, "order/2", "a")
		record := w.load("brief/1")
		if want := record.UpdatedAt.Add(10 * time.Minute); !record.ExpireAt.Equal(want) || record.Owes() {
			t.Errorf("at the end the item expires at %v with the outbox %v, want %v and no outbox", record.ExpireAt, record.Outbox, want)
		}
	})
}

// fan is a machine that sends an event to each of n instances in one step.
func (w *world) fan(n int) durable.Machine {
	var actions do
	for i := range n {
		actions = append(actions, statechart.SendTo("add", func(basket, statechart.Event) (string, any) {
			return fmt.Sprintf("order/%d", i), map[string]string{"item": "x"}
		}))
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "fan", Version: 1, Initial: "open", Payloads: payloads(),
		States: []chartState{{ID: "open", Tags: settled, On: []on{{Event: "add", Actions: actions}}}},
	}), durable.MachineConfig{})
}

// Ten events each send 256 messages, either to 256 instances or to one. A call takes 100 ms, and an invocation has a
// minute. Each invocation continues where the last one stopped.
func TestAnOutboxLongerThanAnInvocationEmpties(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sends, events = 256, 10
		w := newWorld(t)
		w.host(t, w.fan(sends))
		w.latency = func(string) time.Duration { return 100 * time.Millisecond }
		for range events {
			w.post("fan/1", event("add", "go"))
		}
		invocations, lengths := 0, 0
		w.hook = func(call string) fault {
			if call == "ClearOutbox fan/1" {
				lengths = max(lengths, len(w.load("fan/1").Outbox))
			}
			return none
		}
		for ; invocations < 50; invocations++ {
			batch := slices.DeleteFunc(w.receive(10*batchSize), func(d durable.Delivery) bool { return d.Group != "fan/1" })
			if len(batch) == 0 && !slices.ContainsFunc(w.messages, func(m *message) bool { return m.Group == "fan/1" }) {
				break
			}
			w.handle(batch, functionTimeout)
			time.Sleep(visibilityTimeout)
		}
		received := map[string]int{}
		for _, m := range w.messages {
			received[m.Group]++
		}
		for i := range sends {
			if got := received[fmt.Sprintf("order/%d", i)]; got != events {
				t.Fatalf("order/%d was sent %d messages, want %d", i, got, events)
			}
		}
		if record := w.load("fan/1"); record.Owes() || lengths > 2*sends || invocations > 10 {
			t.Errorf("after %d invocations the outbox holds %d effects, its maximum was %d", invocations, len(record.Outbox), lengths)
		}
	})
}

// A process freezes before it releases an alias. When it wakes up, the instance has claimed the alias again.
func TestAProcessThatWasFrozenReleasesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		unalias := statechart.Unalias(func(_ basket, e statechart.Event) string { return e.Payload.(item).Item })
		refused := statechart.Assign("refused", func(b *basket, e takenAlias) { b.Log = append(b.Log, "taken: "+e.Alias) })
		w.host(t, callerOf(on{Event: "cancel", Actions: do{unalias}}, on{Event: durable.AliasTaken, Actions: do{refused}}))
		w.post("caller/1", event("add", "k"))
		w.run(t)
		w.post("caller/1", event("cancel", "k"))
		w.hook = w.frozenBefore("Release k", 1, func() {
			time.Sleep(visibilityTimeout)
			w.hook = nil
			w.post("caller/1", event("add", "k"))
			w.run(t)
		})
		w.invoke()
		w.hook = nil
		w.run(t)
		w.post("caller/2", event("add", "k"))
		w.run(t)
		w.wantLog(t, "caller/2", "taken: k")
		if owner := w.aliases["k"]; !strings.HasPrefix(owner, "caller/1 ") {
			t.Errorf("the owner is %s, want caller/1", owner)
		}
	})
}
