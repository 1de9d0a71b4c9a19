package explore_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/waking"
	"github.com/settle-run/settle/runtime/statechart"
)

// awake checks, while no process runs, that a queued or scheduled message will wake each stored instance that needs
// one.
func (x *search) awake(w *world) {
	for _, id := range slices.Sorted(maps.Keys(w.records)) {
		stored, err := waking.Of(x.hosts[0], w.record(id))
		if err != nil { // The next version stored the item.
			stored, err = waking.Of(x.hosts[len(x.hosts)-1], w.record(id))
		}
		if err == nil {
			err = stored.Check(w.bodies(id))
		}
		if err != nil && w.facts["interrupted "+id] == 0 {
			w.wrong("not woken: %s: %v", id, err)
		}
	}
}

// bodies returns the bodies of the messages to an instance: those in the queue, and those scheduled for later.
func (w *world) bodies(id string) (queued, later []string) {
	for _, m := range w.messages {
		if m.Group == id {
			queued = append(queued, m.Body)
		}
	}
	for _, s := range w.scheduled {
		if s.message.To.String() == id {
			later = append(later, string(s.message.Body))
		}
	}
	return queued, later
}

// tasksAnswered: "a task that waits is answered once, with the outcome that was committed; if it can no longer be
// answered, the chart can receive it".
func (w *world) tasksAnswered() {
	for _, value := range slices.Sorted(maps.Keys(w.tasks)) {
		t := w.tasks[value]
		record := w.record(t.group)
		told := w.exactly(t.group, "gone "+t.name+" "+t.execution)
		held := slices.ContainsFunc(record.Tokens, func(k instances.Token) bool { return k.Value.Reveal() == value && !k.Expired })
		wasParked := slices.ContainsFunc(w.parked, func(p parked) bool { return strings.Contains(p.Body, `"`+value+`"`) })
		reached := record.Status != statechart.Active || slices.ContainsFunc(w.scenario.posts, func(p post) bool { return p.typ == "hand" && w.exactly(p.group, p.item) > 0 })
		switch {
		case told > 1 && len(w.tasks) == 1:
			w.wrong("expiry told %d times: %s", told, value)
		case t.answer != "" && told > 0 && len(w.tasks) == 1:
			w.wrong("answered and told expired: %s", value)
		case t.answer != "" && held:
			w.wrong("answered and held: %s", value)
		case t.answer == "" && held && reached:
			w.wrong("reached and not answered: %s", value)
		case t.answer == "" && !t.isGone(w.clock) && !held:
			w.wrong("never answered: %s", value)
		case t.isGone(w.clock) && !held && told == 0 && t.execution != "" && record.Status == statechart.Active && !wasParked:
			w.wrong("expiry not told: %s", value)
		case t.answer != "" && !strings.Contains(t.answer, `"way"`) && t.answer != durable.ErrorEnded && t.answer != durable.ErrorParked && (t.answer != durable.ErrorStopped || w.facts["ended by an operator "+t.group] == 0):
			w.wrong("wrong answer: %s: %s", value, t.answer)
		}
	}
}

// aliasesOwned: "an alias belongs to one instance, until it ends". A second claimant is notified "once for each claim".
func (w *world) aliasesOwned() {
	for _, name := range slices.Sorted(maps.Keys(w.aliases)) {
		a := w.aliases[name]
		owner := w.record(a.owner)
		isAlive := owner.Status == statechart.Active && owner.CreatedAt.UnixMilli() == a.created
		switch {
		case !a.released && !isAlive:
			w.wrong("alias never released: %s of %s, which has ended", name, a.owner)
		case a.released && isAlive:
			w.wrong("alias released by the living: %s of %s", name, a.owner)
		case isAlive && !slices.Contains(owner.Aliases, name):
			w.wrong("alias unknown to its owner: %s will not be released when %s ends", name, a.owner)
		}
	}
	claims := map[[2]string]int{}
	for _, p := range w.scenario.posts {
		if p.typ == "claim" {
			claims[[2]string{p.group, p.to}] += w.exactly(p.group, p.item)
		}
	}
	for claim, n := range claims {
		id, name := claim[0], claim[1]
		record, taken := w.record(id), w.exactly(id, "taken "+name)
		has := w.aliases[name].owner == id && !w.aliases[name].released
		switch {
		case taken > n:
			w.wrong("refusal told %d times: %s of %s, which has claimed it %d times", taken, name, id, n)
		case record.Status != statechart.Active || n == 0:
		case slices.Contains(record.Aliases, name) && !has:
			w.wrong("alias of another: %s is in the record of %s", name, id)
		case !has && taken == 0:
			w.wrong("alias lost: %s has no claim to %s, and received no alias.taken", id, name)
		case has && taken == n:
			w.wrong("refused and granted: %s has %s, and received alias.taken for each claim", id, name)
		}
	}
}

// childrenOf returns the keys of the children that an instance lists, and their machines.
func childrenOf(record instances.Record) map[string]string {
	var snapshot struct {
		Children map[string]struct{ Key, Machine string }
	}
	if record.Revision > 0 {
		mustUnmarshal(record.Snapshot, &snapshot)
	}
	machines := map[string]string{}
	for _, c := range snapshot.Children {
		machines[c.Key] = c.Machine
	}
	return machines
}

// familiesWhole: "a child is started once, its end reaches its parent once, and it is stopped when its parent leaves the
// state or ends".
func (w *world) familiesWhole() {
	left := 0
	for id := range w.records {
		record := w.record(id)
		if record.Parent != nil && record.Status == statechart.Active && childrenOf(w.record(record.Parent.Instance))[record.Parent.Child] == "" {
			w.wrong("orphan: %s is active, and %s does not list it", id, record.Parent.Instance)
		}
	}
	for fact := range w.facts {
		if id, ok := strings.CutPrefix(fact, "lived b/"); ok && w.facts["ended b/"+id] > 0 && w.facts["terminated b/"+id] == 0 {
			left++
		}
	}
	if byes := w.exactly("x/b", "bye"); byes > max(left, 1) || byes < left {
		w.wrong("exit of a child: x/b has heard %d byes, and %d children have lived and ended", byes, left)
	}
	begun, ended := map[string]int{}, map[string]int{}
	for _, p := range w.scenario.posts {
		n := w.exactly(p.group, p.item)
		switch p.typ {
		case "help-b", "help-c", "help-d":
			begun[p.group] += n
		case "again":
			begun[p.group] += n
			ended[p.group] += n
		case "cancel", "finish":
			ended[p.group] += n
		}
	}
	for id, n := range begun {
		for _, state := range []string{"helped-b", "helped-c", "helped-d"} {
			n += w.facts["entered "+state+" "+id] - w.facts["left "+state+" "+id]
		}
		if record := w.record(id); record.Revision > 0 && !w.deployed && w.executionsOf(id) == 0 {
			if ends := ended[id] + w.count(id, "back ") + w.exactly(id, "lost") + len(childrenOf(record)); ends != n {
				w.wrong("ends of children: %s has begun %d, and knows of %d; its log is %q", id, n, ends, w.applied[id])
			}
		}
	}
}

func (w *world) executionsOf(id string) (n int) {
	for _, e := range w.executions {
		if e.group == id {
			n++
		}
	}
	return n
}

// executionsTold: "a workflow that a chart starts is executed once, and its end reaches the chart once".
func (w *world) executionsTold() {
	starts := map[string]int{}
	for _, p := range w.scenario.posts {
		if p.typ == "print" || p.typ == "again" && w.executionsOf(p.group) > 0 {
			starts[p.group] += w.exactly(p.group, p.item)
		}
	}
	for id, n := range starts {
		isActive := w.record(id).Status == statechart.Active
		started, ended := w.executionsOf(id), w.count(id, "ended ")
		switch {
		case started > n, isActive && started < n && !w.scenario.refused:
			w.wrong("executions started: %d of %s, which has asked for %d", started, id, n)
		case ended > n, isActive && ended < n:
			w.wrong("ends of executions: %s received %d ends, and asked for %d executions", id, ended, n)
		}
	}
}

// failuresTold: an effect that fails permanently "is stored under failed_effects", and the chart receives it once.
func (w *world) failuresTold() {
	for id := range w.records {
		record := w.record(id)
		for _, f := range record.FailedEffects {
			told := w.exactly(id, "failed "+derivedID(record, f.ID))
			if told > 1 || told == 0 && record.Status == statechart.Active && f.Report != instances.ReportUnsent {
				w.wrong("failure told %d times: %s of %s", told, f.ID, id)
			}
		}
	}
}
