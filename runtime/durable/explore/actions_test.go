package explore_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// action is something that may happen to the world while no call proceeds.
type action struct {
	name string
	// `at` is the earliest time of the action. `lanes` names the lanes from which the action receives messages.
	at    time.Time
	lanes []string
	do    func(w *world, d *decisions)
}

// actions returns the possible next actions. depth counts the processes that are frozen or paused meanwhile.
func (x *search) actions(w *world, depth int) []action {
	return slices.Concat(x.deliveries(w, depth), firings(w), forgetting(w, depth), x.operating(w, depth), x.commands(w, depth), laterPosts(w), w.taskActions(), w.executionActions())
}

// deliveries returns the batches that SQS may deliver: messages from the front of each unlocked lane. A batch comes from
// one queue and may mix groups.
func (x *search) deliveries(w *world, depth int) (actions []action) {
	count, free := w.lanes()
	names := slices.Sorted(maps.Keys(count))
	var choose func(i int, batch map[string]int)
	choose = func(i int, batch map[string]int) {
		if i < len(names) {
			for n := range count[names[i]] + 1 {
				if other := slices.Collect(maps.Keys(batch)); n > 0 && len(other) > 0 && (queuePrefix(names[i]) != queuePrefix(other[0]) || depth > 0) {
					break
				}
				next := maps.Clone(batch)
				if n > 0 {
					next[names[i]] = n
				}
				choose(i+1, next)
			}
			return
		}
		lanes := slices.Sorted(maps.Keys(batch))
		if len(lanes) == 0 {
			return
		}
		name, at := "deliver", w.clock
		for _, l := range lanes {
			name += fmt.Sprintf(" %s %d", l, batch[l])
			at = later(at, free[l])
		}
		actions = append(actions, action{name: name, at: at, lanes: lanes, do: func(w *world, d *decisions) {
			w.clock = later(w.clock, at)
			x.handle(w, d, w.receive(batch), depth)
		}})
	}
	choose(0, map[string]int{})
	return actions
}

// queuePrefix returns the part of a lane's name that stands for its queue.
func queuePrefix(lane string) string {
	prefix, _, ok := strings.Cut(lane, ":")
	if !ok {
		return ""
	}
	return prefix
}

// firings returns the ways in which the scheduled messages may fire: on time or, with a fault, early or twice.
func firings(w *world) (actions []action) {
	for i, s := range w.scheduled {
		isPoll := strings.Contains(string(s.message.Body), `"settle.execution"`)
		if isPoll && w.facts["polled"] > 0 && w.isRunning() {
			continue // Otherwise the polls would go on without end.
		}
		fire := func(name string, at time.Time, faults int, isLast bool) {
			if w.left.Faults < faults {
				return
			}
			actions = append(actions, action{name: name + " " + s.message.DeduplicationID, at: at, do: func(w *world, _ *decisions) {
				w.left.Faults -= faults
				w.clock = later(w.clock, at)
				if isPoll {
					w.facts["polled"] = 1
				}
				if isLast {
					w.scheduled = slices.Delete(slices.Clone(w.scheduled), i, i+1)
				}
				w.send(s.message)
			}})
		}
		fire("fire", s.at, 0, true)
		fire("fire, and once more later,", s.at, 1, false)
		if s.at.After(w.clock) {
			fire("fire early", w.clock, 1, true)
		}
	}
	return actions
}

func (w *world) isRunning() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(w.executions)), func(e execution) bool { return e.end == "" })
}

// forgetting returns the effects of time: TTL deletes items, and SQS forgets deduplication IDs.
func forgetting(w *world, depth int) (actions []action) {
	for _, id := range slices.Sorted(maps.Keys(w.records)) {
		// An event that arrives after the item has expired starts a new instance, as documented. Therefore TTL deletes
		// an item only if no event for it is in flight and no other instance owes it an event. It deletes nothing while
		// a process is frozen, because no process is frozen for as long as the retention.
		if r := w.records[id]; depth == 0 && !r.expireAt.IsZero() && (w.record(id).Owes() || !w.expects(id) && !w.inDebt()) {
			actions = append(actions, action{name: "TTL deletes " + id, at: r.expireAt, do: func(w *world, _ *decisions) {
				w.clock = later(w.clock, r.expireAt)
				if w.record(id).Owes() {
					w.wrong("expired in debt: TTL deletes %s, which owes effects", id)
				}
				delete(w.records, id)
				delete(w.cached, id) // A copy is used for a minute at most.
			}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.aliases)) {
		if a := w.aliases[name]; depth == 0 && a.released && !a.expireAt.IsZero() {
			actions = append(actions, action{name: "TTL deletes alias " + name, at: a.expireAt, do: func(w *world, _ *decisions) {
				w.clock = later(w.clock, a.expireAt)
				delete(w.aliases, name)
			}})
		}
	}
	if w.left.Waits > 0 && len(w.messages)+len(w.scheduled) > 0 {
		actions = append(actions, action{name: "five minutes pass", do: func(w *world, _ *decisions) {
			w.left.Waits--
			w.clock = w.clock.Add(deduplicationTime + time.Second)
		}})
	}
	return actions
}

// expects reports whether a message to the instance is in the queue or in flight.
func (w *world) expects(id string) bool {
	return slices.ContainsFunc(w.messages, func(m message) bool { return m.Group == id })
}

// inDebt reports whether any instance may still perform effects: it owes them, or the queue still has an event whose
// redelivery repeats the instance's outbox.
func (w *world) inDebt() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.records)), func(id string) bool {
		record := w.record(id)
		isOf := func(m message) bool {
			return m.Group == id && instances.CompareSequence(m.SequenceNumber, record.Watermark[m.Queue]) <= 0
		}
		return record.Owes() || record.IsLeft() && slices.ContainsFunc(w.messages, isOf)
	})
}

// operating returns the actions of operators: redrive, restore, deploy, and change permissions.
func (x *search) operating(w *world, depth int) (actions []action) {
	add := func(name string, do func(w *world)) {
		actions = append(actions, action{name: name, do: func(w *world, _ *decisions) { do(w) }})
	}
	for i, p := range w.parked {
		if w.left.Redrives > 0 && !p.redriven {
			add("redrive "+p.MessageID, func(w *world) {
				w.left.Redrives--
				w.parked[i].redriven = true
				w.enqueue(p.Queue, p.Group, p.Body, "redrive "+strconv.Itoa(w.left.Redrives), instances.Place{Queue: p.Queue, SequenceNumber: p.SequenceNumber})
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.backups)) {
		// As docs/backups.md asks under "Restore one instance", the consumer is stopped and all its invocations have
		// ended.
		if depth == 0 && w.left.Restores > 0 {
			add("restore "+id, func(w *world) {
				w.left.Restores--
				for _, line := range w.records[id].log[len(w.backups[id].log):] {
					w.facts["forgotten "+line] = 1
				}
				for _, effect := range w.record(id).Outbox {
					delete(w.facts, "committed "+string(effect.Kind)+" "+derivedID(w.record(id), effect.ID))
				}
				w.records[id], w.applied[id] = w.backups[id], w.backups[id].log
				delete(w.cached, id) // The operator waits for a minute.
				w.rearm(x.hosts[len(x.hosts)-1], id)
			})
		}
	}
	if len(w.scenario.versions) > 0 && !w.deployed {
		add("deploy", func(w *world) { w.deployed = true })
	}
	if w.left.Denials > 0 {
		add("deny sending", func(w *world) { w.denied, w.left.Denials = true, w.left.Denials-1 })
	}
	if w.denied {
		add("allow sending", func(w *world) { w.denied = false })
	}
	return actions
}

// rearm rearms a restored instance and sends it a message, so that a consumer performs its outbox.
func (w *world) rearm(machines *durable.Machines, id string) {
	record, err := durable.Rearm(machines, w.record(id), w.clock, "")
	if err != nil {
		panic(err)
	}
	w.store(record)
	for _, effect := range record.Outbox {
		name := derivedID(record, effect.ID)
		w.facts["committed "+string(effect.Kind)+" "+name], w.facts["may "+name] = 1, 1
		delete(w.facts, "cleared "+name)
	}
	w.enqueue(queueARN, id, `{"type": "settle.timer", "timer": "resume"}`, "rearm "+id, instances.Place{})
}

// laterPosts returns the action that sends the next of the later posts, if its instance exists.
func laterPosts(w *world) []action {
	if len(w.later) == 0 || len(w.applied[w.later[0].group]) == 0 {
		return nil
	}
	p := w.later[0]
	return []action{{name: "send " + p.item, do: func(w *world, _ *decisions) {
		w.later = w.later[1:]
		w.enqueue(p.queue, p.group, fmt.Sprintf(`{"type":%q,"item":%q,"to":%q}`, p.typ, p.item, p.to), "later "+p.item, instances.Place{})
	}}}
}

// taskActions returns the possible ends of tasks: a task times out, or its execution is aborted.
func (w *world) taskActions() (actions []action) {
	for _, value := range slices.Sorted(maps.Keys(w.tasks)) {
		t := w.tasks[value]
		if t.answer == "" && !t.isGone(w.clock) && t.timeout > 0 {
			at := t.entered.Add(t.timeout)
			actions = append(actions, action{name: "task " + value + " times out", at: at, do: func(w *world, _ *decisions) { w.clock = later(w.clock, at) }})
		}
		if t.answer == "" && !t.isGone(w.clock) && t.timeout == 0 {
			actions = append(actions, action{name: "abort the execution of " + value, do: func(w *world, _ *decisions) {
				t.aborted = true
				w.tasks[value] = t
			}})
		}
	}
	return actions
}

// executionActions returns the possible ends of executions. EventBridge may report an end zero, one or two times.
func (w *world) executionActions() (actions []action) {
	for _, arn := range slices.Sorted(maps.Keys(w.executions)) {
		e := w.executions[arn]
		switch n := w.facts["told "+arn]; {
		case e.end == "":
			actions = append(actions, action{name: "an execution ends", do: func(w *world, _ *decisions) {
				e.end = "SUCCEEDED"
				w.executions[arn] = e
			}})
		case n < 2:
			actions = append(actions, action{name: "EventBridge tells the end", do: func(w *world, _ *decisions) {
				w.facts["told "+arn]++
				m, _, err := durable.ExecutionEnd([]byte(e.input), statechart.ExecutionEnded{Name: e.name, Execution: arn, Status: "SUCCEEDED"})
				if err != nil {
					panic(err)
				}
				m.DeduplicationID += strconv.Itoa(n) // SQS may have forgotten the first event when the second arrives.
				w.send(m)
			}})
		}
	}
	return actions
}
