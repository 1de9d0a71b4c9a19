package host

import (
	"context"
	"log/slog"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/eventbridgebus"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// newEmit returns the function that publishes emitted events on the event bus in the settings. Without a bus, it
// returns nil and logs a warning for each machine that emits.
func newEmit(p *Process, machines *durable.Machines) func(context.Context, instances.ID, []statechart.Effect) []error {
	if p.Settings.EventBus == "" {
		warnAboutEmitting(p.Logger, machines)
		return nil
	}
	return eventbridgebus.New(eventbridge.NewFromConfig(p.RuntimeAWS()), p.Settings.EventBus).Emit
}

// warnAboutEmitting logs a warning for each machine with an Emit action. It cannot see events that are emitted by
// EnqueueActions or by machines that are not charts.
func warnAboutEmitting(logger *slog.Logger, machines *durable.Machines) {
	for _, id := range machines.IDs() {
		machine, err := machines.Lookup(id)
		if err != nil || machine.Outline() == nil {
			continue
		}
		if events := emitted(machine.Outline().Root); len(events) > 0 {
			slices.Sort(events)
			logger.Warn("the events that a chart emits are dropped: set "+EventBus+" to an event bus, with the parameter EventBus of the template", "machine", id, "events", slices.Compact(events))
		}
	}
}

// emitted returns the types of the events that the actions of a state and its descendants emit.
func emitted(state outline.State) (events []string) {
	add := func(actions []outline.Action) {
		for _, action := range actions {
			if action.By == outline.Emit {
				events = append(events, action.Event)
			}
		}
	}
	transitions := slices.Concat(state.On, state.Always, state.OnDone)
	for _, after := range state.After {
		transitions = append(transitions, after.Transition)
	}
	for _, invoke := range state.Invoke {
		transitions = slices.Concat(transitions, invoke.OnDone, invoke.OnError)
	}
	for _, child := range state.Children {
		transitions = slices.Concat(transitions, child.OnDone, child.OnError)
	}
	for _, transition := range transitions {
		add(transition.Actions)
	}
	for _, actions := range [][]outline.Action{state.Entry, state.Exit, state.DefaultEntry} {
		add(actions)
	}
	for _, child := range state.States {
		events = append(events, emitted(child)...)
	}
	return events
}
