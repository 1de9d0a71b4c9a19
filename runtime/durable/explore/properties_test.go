package explore_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// The properties that the search checks at each call. The quotes are the promises of docs/guarantees.md.

// committed checks a commit: "applied exactly once", "no event is applied to an unsettled configuration", "a service
// that has finished never runs again".
func (w *world) committed(was, is stored, record instances.Record) {
	id := record.Instance.String()
	if len(is.log) < len(was.log) && !record.Forgotten {
		w.wrong("taken back: a commit of %s forgets an applied event", id)
		return
	}
	if was.hasEnded && !is.hasEnded {
		w.wrong("alive after the end: %s", id)
	}
	for i, line := range is.log[min(len(was.log), len(is.log)):] {
		if was.hasEnded {
			w.wrong("applied after the end: %s to %s", line, id)
		}
		w.applied[id] = append(slices.Clip(w.applied[id]), line)
		if i == 0 && len(was.services) > 0 && isEvent(line) && !w.deployed { // A migration may settle the instance.
			w.wrong("applied while unsettled: %s to %s", line, id)
		}
		if strings.Contains(line, " failed: ") && !strings.HasPrefix(line, "back ") && w.facts["blame "+id]+w.facts["freezes"] == 0 {
			w.wrong("innocent service exhausted: %s: %q, and no attempt of its own has failed or died", id, line)
		}
		if line == "over" && slices.ContainsFunc(was.timers, w.clock.Before) {
			w.wrong("timer early: of %s", id)
		}
	}
	for _, key := range was.services {
		if !slices.Contains(is.services, key) {
			w.facts["ended "+id+" "+key] = 1
		}
	}
	w.keptFailures(record)
	for _, effect := range record.Outbox {
		name := derivedID(record, effect.ID)
		// A restored instance decides again to forward a message that is still in a queue.
		if isRestored := w.left.Restores < w.scenario.left.Restores; w.facts["cleared "+name] > 0 && !(isRestored && effect.Kind == "forward.delivery") {
			w.wrong("cleared outbox comes back: %s of %s", effect.ID, id)
		}
		w.facts["committed "+string(effect.Kind)+" "+name] = 1
		w.facts["may "+name] = 1
	}
	if record.Parent == nil {
		return
	}
	switch {
	case record.Status != statechart.Active:
		w.facts["ended "+id] = 1
	case w.facts["ended "+id] > 0 || was.revision == 0 && w.facts["lived "+id] > 0:
		w.wrong("a child comes to life again: %s", id)
	default:
		w.facts["lived "+id] = 1
	}
}

// keptFailures notes the effects that an item keeps as failed.
func (w *world) keptFailures(record instances.Record) {
	for _, f := range record.FailedEffects {
		w.facts["failed "+derivedID(record, f.ID)], w.facts["failures "+record.Instance.String()] = 1, 1
	}
}

// blamed checks the failure that the item records for its last parked or postponed event. If the failure says that
// processes died, a process must have died: failures of AWS do not count.
func (w *world) blamed(was, is stored, record instances.Record) {
	if id := record.Instance.String(); is.isAbandoned && !was.isAbandoned && w.facts["blame "+id] == 0 {
		w.wrong("innocent event blamed: the item of %s says that processes died with %q, and none has", id, record.Error.Event)
	}
}

// isEvent reports whether a line of the log comes from an event, and not from the end of a service or from a timer.
func isEvent(line string) bool {
	return !strings.HasSuffix(line, " ok") && !strings.Contains(line, " failed: ") && line != "limit" && line != "over"
}

// performed checks a message against the rule "An effect is performed only after the commit that contains it". The
// loop's own messages
// have other IDs, and performed does not check them.
func (w *world) performed(m durable.Message) {
	if w.facts["may "+m.DeduplicationID] == 0 && !strings.Contains(string(m.Body), `"type":"settle.`) {
		w.wrong("performed before its commit: %s", m.DeduplicationID)
	}
	w.facts["performed "+m.DeduplicationID] = 1
	var ring struct {
		Type, Item string
		Chain      instances.Chain `json:"$chain"`
	}
	mustUnmarshal(m.Body, &ring)
	if ring.Type == "ring" && ring.Chain.Hops != strings.Count(ring.Item, "+") {
		w.wrong("hops: the message %s to %s counts %d", ring.Item, m.To, ring.Chain.Hops)
	}
}

// served checks an attempt of a service. There may be more attempts than attemptsMax: the loop does not count a first
// attempt that kills the process, or an attempt whose end AWS fails to store.
func (w *world) served(name string, call statechart.Call) {
	_, key, _ := strings.Cut(call.Key, "/")
	_, key, _ = strings.Cut(key, "/")
	w.facts["served "+call.Instance+" "+name] = 1
	if w.records[call.Instance].hasEnded && w.left.Faults == w.faults && w.left.Pauses == 0 && len(w.scenario.commands) == 0 {
		w.wrong("service of an ended instance: %s of %s", name, call.Instance)
	}
	if w.facts["ended "+call.Instance+" "+key] > 0 || name == "pack" && w.facts["served "+call.Instance+" post"] > 0 {
		w.wrong("service runs again: %s of %s, which has finished", name, call.Instance)
	}
	n := w.facts["attempts "+call.Key] + 1
	if w.facts["attempts "+call.Key] = n; n > attemptsMax+1+w.faults-w.left.Faults {
		w.wrong("too many attempts: %s of %s for the %dth time", name, call.Instance, n)
	}
}

// parkedNow checks the parking of a delivery. "One instance's trouble does not hold up another's events."
func (w *world) parkedNow(d durable.Delivery, reason string) {
	var head struct{ Type, Item string }
	mustUnmarshal([]byte(d.Body), &head)
	if strings.Contains(reason, "endless cycle") && strings.Count(head.Item, "+") <= w.scenario.hops {
		w.wrong("hops: %s of %s is parked, the limit is %d: %.60s", head.Item, d.Group, w.scenario.hops, reason)
	}
	if isAbandoned(reason) && w.facts["blame "+d.Group] == 0 {
		w.wrong("innocent event parked: %s of %s, and no process has died with it: %.60s", head.Type, d.Group, reason)
	}
}

// isAbandoned reports whether the reason is that the process died in too many tries.
func isAbandoned(reason string) bool {
	return strings.Contains(reason, "the process died during the attempt")
}

// refused checks a claim that is refused. "An alias belongs to one instance, until it ends."
func (w *world) refused(name string, has alias, id string) {
	if owner := w.record(has.owner); !has.released && owner.Status != statechart.Active && !owesRelease(owner, name) {
		w.wrong("alias of the dead: %s is refused %s, which belongs to %s, which has ended and will never release it", id, name, has.owner)
	}
}

func owesRelease(record instances.Record, name string) bool {
	return slices.ContainsFunc(record.Outbox, func(e statechart.Effect) bool { return e.Kind == "release" && e.Name == name })
}

// atRest checks a world without queued or scheduled messages.
func (x *search) atRest(w *world) {
	for _, id := range slices.Sorted(maps.Keys(w.records)) {
		x.settled(w, id)
	}
	w.nothingLost()
	if len(w.problems) > 0 {
		return // The checks below would report consequences of these problems.
	}
	for _, p := range w.scenario.posts {
		if p.typ != "task" && p.typ != "release" { // Events of these two types leave no line in the log.
			w.appliedOnce(p)
		}
	}
	w.ringsParked()
	w.inOrder()
	w.tasksAnswered()
	w.aliasesOwned()
	w.familiesWhole()
	w.executionsTold()
	w.failuresTold()
	w.commandsDone()
}

// settled checks that an instance is settled, owes nothing, and waits only for things that can still come.
func (x *search) settled(w *world, id string) {
	record := w.record(id)
	_, instance, err := x.hosts[len(x.hosts)-1].Restore(record)
	if err != nil {
		panic(err)
	}
	if !instance.Settled() {
		w.wrong("unsettled for ever: %s in %v", id, record.State)
	}
	if record.Owes() {
		w.wrong("owed for ever: %s owes %d effects", id, len(record.Outbox))
	}
	if mayExpire := record.Status != statechart.Active && !record.Kept; mayExpire == record.ExpireAt.IsZero() {
		w.wrong("expiry: %s is %s, kept: %v, and expires at %v", id, record.Status, record.Kept, record.ExpireAt)
	}
	if record.Moving != nil {
		w.wrong("moves for ever: %s to the lane %s", id, record.Moving.Lane)
	}
	for _, timer := range instance.Timers() {
		w.wrong("waits for ever: %s for the timer %s", id, timer.ID)
	}
	for _, k := range record.Tokens {
		if k.TimeoutSeconds+k.HeartbeatSeconds > 0 && !k.Expired {
			w.wrong("waits for ever: %s for the task %s, and no heartbeat is scheduled", id, k.Name)
		}
	}
	for _, e := range record.Executions {
		w.wrong("waits for ever: %s for the execution %s, and no poll is scheduled", id, e.Workflow)
	}
	for key := range childrenOf(record) {
		child := w.record(instances.ChildName(record.Instance, record.CreatedAt, key, childrenOf(record)[key]).String())
		if child.Status != statechart.Active {
			w.wrong("waits for ever: %s for its child %s, which is %q", id, key, child.Status)
		}
	}
}

// nothingLost: "an effect is performed at least once", or is kept as failed.
func (w *world) nothingLost() {
	for fact := range w.facts {
		rest, isEffect := strings.CutPrefix(fact, "committed ")
		kind, name, _ := strings.Cut(rest, " ")
		if !isEffect || !slices.Contains([]string{"send", "spawn", "stop", "refuse", "end", "end.stopped"}, kind) || w.facts["performed "+name] > 0 {
			continue
		}
		if w.facts["failed "+name] == 0 {
			w.wrong("effect lost: %s %s", kind, name)
		}
	}
}

// ringsParked: "messages that never end are parked", and none of them is lost.
func (w *world) ringsParked() {
	for _, p := range w.scenario.posts {
		if p.typ != "ring" {
			continue
		}
		for hops, item := 0, p.item; ; hops, item = hops+1, item+"+" {
			id := []string{p.group, strings.Split(p.to, ",")[0]}[hops%2]
			n, isLast := w.exactly(id, item), hops > w.scenario.hops
			parked, _ := w.copies(id, item)
			if n > 1 || n == 0 && parked == 0 || isLast && n > 0 {
				w.wrong("ring: message %d was applied %d times and parked %d times, the limit is %d", hops, n, parked, w.scenario.hops)
			}
			if n == 0 {
				break
			}
		}
	}
}

// exactly returns how often an item was applied to an instance.
func (w *world) exactly(id, item string) (n int) {
	for _, line := range w.applied[id] {
		if line == item {
			n++
		}
	}
	return n
}

// copies returns how often an item of an instance was parked, and how many of the parked copies no operator has
// redriven.
func (w *world) copies(id, item string) (all, left int) {
	for _, p := range w.parked {
		if p.Group == id && strings.Contains(p.Body, `"item":"`+item+`"`) {
			all++
			if !p.redriven {
				left++
			}
		}
	}
	return all, left
}

// appliedOnce checks an event from outside, and its consequences: "applied exactly once, or parked", "sends and timers
// take effect once". Events after the end of an instance are ignored. An event may be both parked and applied if the
// parking could not be recorded, as documented.
func (w *world) appliedOnce(p post) {
	once := func(what, group, item string, optional bool) int {
		n := w.exactly(group, item)
		_, left := w.copies(group, item)
		switch {
		case n > 1 && (what != "send" || w.facts["forgotten "+item] == 0): // docs/backups.md: sends may be repeated.
			w.wrong("applied twice: %s of %s, %d times", item, group, n)
		case n == 0 && left == 0 && !optional && w.facts["forgotten "+item] == 0:
			w.wrong("%s lost: %s of %s", what, item, group)
		}
		return n
	}
	n := once("event", p.group, p.item, p.afterEnd || w.mayBeIgnored(p))
	if n == 1 && p.to != "" && (p.typ == "tell" || p.typ == "finish") {
		once("send", p.to, p.item, w.facts["failures "+p.group] > 0 || w.facts["ended by an operator "+p.to] > 0)
	}
	if n > 1 || w.facts["forgotten "+p.item] > 0 {
		return
	}
	// An operator may have left or entered the state that waits for the end.
	want := func(state string) int {
		return n + w.facts["entered "+state+" "+p.group] - w.facts["left "+state+" "+p.group]
	}
	if over := w.exactly(p.group, "over"); p.typ == "wait" && over != want("waiting") {
		w.wrong("timer fires %d times: the one of %s", over, p.group)
	}
	for event, service := range map[string]string{"charge": "charge", "hurry": "hurry", "ship": "pack", "kill": "kill"} {
		state := map[string]string{"charge": "charging", "hurry": "hurrying", "ship": "packing", "kill": "killing"}[event]
		if ends := w.count(p.group, service+" ok") + w.count(p.group, service+" failed"); p.typ == event && ends != want(state) {
			w.wrong("service ends %d times: %s of %s", ends, service, p.group)
		}
	}
	if ends := w.count(p.group, "pay ") + w.count(p.group, "limit"); p.typ == "pay" && ends != want("paying") {
		w.wrong("service ends %d times: pay of %s, or its limit", ends, p.group)
	}
}

// inOrder: events are applied "in the order in which the queue accepted them". A parked event has lost its place. With
// lanes, the events that producers send later, to another lane, come after the earlier ones.
func (w *world) inOrder() {
	routeOf := func(p post) string {
		if w.scenario.lanes && slices.ContainsFunc(w.scenario.posts, func(p post) bool { return p.isLater }) {
			return p.group
		}
		return lane(p.queue, p.group)
	}
	want, groups := map[string][]string{}, map[string]string{}
	for _, p := range w.scenario.posts {
		if all, _ := w.copies(p.group, p.item); all == 0 && w.exactly(p.group, p.item) == 1 && !slices.Contains(want[routeOf(p)], p.item) {
			want[routeOf(p)], groups[routeOf(p)] = append(want[routeOf(p)], p.item), p.group
		}
	}
	for route, items := range want {
		var got []string
		for _, line := range w.applied[groups[route]] {
			if slices.Contains(items, line) {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, items) {
			w.wrong("out of order: %s has %v, want %v", route, got, items)
		}
	}
}
