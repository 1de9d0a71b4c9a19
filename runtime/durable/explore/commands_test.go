package explore_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

// command is a command of an operator that changes an instance.
type command struct {
	kind instances.OperationKind
	// `on` is the name of the instance, or the machine of a child followed by a slash. `state` is the target of a move or
	// the new lane.
	on, state string
}

// parseCommands reads commands: "stop x/a; move x/a waiting; terminate b/".
func parseCommands(text string) (commands []command) {
	for line := range strings.SplitSeq(text, ";") {
		if words := append(strings.Fields(line), ""); len(words) > 1 {
			commands = append(commands, command{instances.OperationKind(words[0]), words[1], words[2]})
		}
	}
	return commands
}

// commands returns the commands that operators may run now. An operator whose command was interrupted runs it again. If
// the command is a move, the operator runs settle resume instead.
func (x *search) commands(w *world, depth int) (actions []action) {
	for i, c := range w.scenario.commands {
		for _, id := range slices.Sorted(maps.Keys(w.records)) {
			isOn := id == c.on || strings.HasSuffix(c.on, "/") && strings.HasPrefix(id, c.on)
			isActive, isKeep := w.record(id).Status == statechart.Active, c.kind == instances.Keep || c.kind == instances.Unkeep
			name := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.kind, id, c.state))
			switch {
			case w.facts["interrupted "+id] == i+1:
				name = "again " + name
			case w.facts["interrupted "+id] > 0 || w.left.Commands == 0 || !isOn || w.hasToSwitch() || !isKeep && isActive == (c.kind == instances.Forget):
				continue
			}
			actions = append(actions, action{name: name, do: func(w *world, d *decisions) { x.command(w, d, id, i, depth) }})
		}
	}
	return actions
}

// hasToSwitch reports whether the producers have yet to send to another lane. As docs/lanes.md asks, they do so before the
// instance moves there.
func (w *world) hasToSwitch() bool {
	all, others := 0, 0
	for _, p := range w.scenario.posts {
		if p.isLater {
			all++
		}
		if p.isLater && p.queue != w.scenario.posts[0].queue {
			others++
		}
	}
	return others > 0 && len(w.later) == all
}

// isInterrupted reports whether an operator has yet to repeat an interrupted command.
func (w *world) isInterrupted() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.records)), func(id string) bool { return w.facts["interrupted "+id] > 0 })
}

// command runs a command of an operator, with the code of the command line.
func (x *search) command(w *world, d *decisions, name string, number, depth int) {
	p, ctx := x.newProcess(w, d, depth)
	p.command = &w.scenario.commands[number]
	isAgain := w.facts["interrupted "+name] > 0
	if !isAgain {
		w.left.Commands--
	}
	w.facts["commands"]++
	changes := w.facts["changes "+name]
	id, err := instances.ParseID(name)
	if err != nil {
		panic(err)
	}
	o := operations.Operator{Machines: x.hostsOf(w, d), Store: p, Queue: p, NewID: func() string { return name + "@command/" + strconv.Itoa(w.facts["commands"]) }}
	p.run(func() {
		if isAgain && p.command.kind == instances.Move {
			var record instances.Record
			if record, err = o.Store.Load(ctx, id); err == nil {
				_, err = o.Wake(ctx, record)
			}
			return
		}
		_, err = o.Change(ctx, id, 0, func(record instances.Record) (instances.Operation, error) {
			if record.Revision == 0 {
				return instances.Operation{}, instances.ErrEnded
			}
			return instances.Operation{Kind: p.command.kind, State: p.command.state, Lane: p.command.state, By: "operator " + strconv.Itoa(w.facts["commands"]), At: w.clock}, nil
		})
	})
	if err == nil && !p.dead && !isAgain && w.facts["changes "+name] == changes {
		w.wrong("not done: %s of %s, and the command reports success", p.command.kind, name)
	}
	isDone := err == nil || !errors.Is(err, operations.ErrNotWoken) && (errors.Is(err, instances.ErrEnded) || errors.Is(err, instances.ErrInUse))
	w.facts["interrupted "+name] = number + 1
	if isDone && !p.dead {
		delete(w.facts, "interrupted "+name)
	}
}

// interleave lets an operator run a command before the next call of a consumer. It also lets a consumer handle a batch
// before one of the calls of a command. Such an interleaving is not a fault.
func (p *process) interleave(name string) {
	switch {
	case p.depth > 0:
	case p.command != nil:
		if !p.frozen && p.d.allow(name+" waits") {
			p.frozen = true
			p.meanwhile(0)
		}
	case p.w.left.Commands > 0:
		can := p.x.commands(p.w, 1)
		if is := p.d.pick(len(can)+1, func(i int) string { return name + " waits: " + can[i-1].name }); is > 0 {
			p.frozen = true
			can[is-1].do(p.w, p.d)
		}
	}
}

// operated checks the changes of an operator's commit, and records them for the other properties.
func (w *world) operated(was instances.Record, is instances.Record, c *command) {
	id := is.Instance.String()
	kept := was.History
	if c.kind == instances.Forget {
		kept = nil
	}
	if n := len(kept); len(is.History) != n+1 || is.History[n].By == "" || is.History[n].Event != statechart.ReservedPrefix+string(c.kind) {
		w.wrong("not in the history: %s of %s", c.kind, id)
	}
	if is.Kept != (c.kind == instances.Keep || was.Kept && c.kind != instances.Unkeep) {
		w.wrong("kept: %v after %s of %s", is.Kept, c.kind, id)
	}
	if c.kind == instances.Forget && (was.Status == statechart.Active || was.Kept || was.Owes()) {
		w.wrong("forgotten in use: %s", id)
	}
	if !is.CreatedAt.Equal(was.CreatedAt) || !reflect.DeepEqual(is.Parent, was.Parent) || !maps.Equal(is.Watermark, was.Watermark) {
		w.wrong("another instance: %s of %s changes its creation, parent or watermark", c.kind, id)
	}
	for _, effect := range is.Outbox[min(len(was.Outbox), len(is.Outbox)):] {
		if c.kind == instances.Terminate && effect.Kind == statechart.Send {
			w.wrong("terminated by its chart: %s sends %s", id, effect.Event)
		}
	}
	w.facts["changes "+id]++
	if was.Status == statechart.Active && is.Status != statechart.Active {
		w.facts["ended by an operator "+id]++
		if c.kind == instances.Terminate {
			w.facts["terminated "+id]++
		}
	}
	for _, state := range was.State {
		if c.kind != instances.Keep && c.kind != instances.Unkeep && c.kind != instances.ChangeLane && was.Status == statechart.Active {
			w.facts["left "+state+" "+id]++
		}
	}
	for _, state := range is.State {
		if c.kind == instances.Move {
			w.facts["entered "+state+" "+id]++
		}
	}
	if c.kind == instances.Move {
		w.facts["moved "+id]++
	}
}

// mayBeIgnored reports whether an operator has taken the instance to a state that ignores the event.
func (w *world) mayBeIgnored(p post) bool {
	return w.facts["ended by an operator "+p.group] > 0 || w.facts["moved "+p.group] > 0 && p.typ != "add"
}

// commandsDone: "an operator's change applies once".
func (w *world) commandsDone() {
	for fact, n := range w.facts {
		if strings.HasPrefix(fact, "ended by an operator ") && n > 1 || strings.HasPrefix(fact, "moved ") && n > w.scenario.left.Commands {
			w.wrong("%d times: %s", n, fact)
		}
	}
}
