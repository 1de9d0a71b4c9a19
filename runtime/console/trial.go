package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

// trial describes what an event or an operation would do to an instance. A trial stores, sends and calls nothing.
type trial struct {
	// Error is the reason why the runtime would park the event, or empty.
	Error string
	// Ignored is set if no transition matches. Deferred is set if the event would wait for a later state.
	Ignored, Deferred      bool
	Left, Entered, Actions []string
	// Started and Stopped are timers. Calls are the services that would start.
	Started, Stopped []instanceview.Timer
	Calls            []instanceview.Service
	Effects          []string
	After            instanceview.Instance
	// Migrated is set if the instance would switch to another version of its machine.
	Migrated bool
	Tree     *node
}

// Drawing returns the data of the chart's panel, which shows the states after a trial.
func (d *eventData) Drawing() drawing {
	shown := d.instanceData.Drawing()
	if d.Trial != nil {
		shown.Heading = "Chart after the trial"
	}
	return shown
}

// try applies the event to a copy of the instance in memory, as the consumer would, and marks the result on the chart.
// Services do not run.
func (c *console) try(d *eventData, body json.RawMessage) (*trial, error) {
	machine, before, err := c.Machines.Restore(d.record)
	if err != nil {
		return nil, &problem{http.StatusInternalServerError, "This build cannot run the instance.", err.Error()}
	}
	event, err := machine.Decode(body)
	if err != nil { // An earlier version of the machine may have a different payload.
		return &trial{Error: err.Error()}, nil //nolint:nilerr // The page shows it.
	}
	event.At = c.Now().UTC()
	var steps []statechart.Microstep
	before.Trace(func(step statechart.Microstep) { steps = append(steps, step) })
	next, effects, handled, err := before.Apply(event)
	if err != nil {
		return &trial{Error: err.Error()}, nil //nolint:nilerr // The page shows it.
	}
	after := d.record
	after.State, after.Status = next.State(), next.Status()
	if after.Snapshot, err = next.Snapshot(); err != nil {
		return nil, err
	}
	t, err := c.resultOf(d.instanceData, after, steps, effects)
	if err != nil {
		return nil, err
	}
	t.Ignored, t.Deferred = !handled, handled && len(steps) == 0
	if d.Chart != nil {
		d.Marks.Taken = addKeys(d.Marks.Taken, d.Chart.taken(event.Type, d.State, t.After.State))
	}
	return t, nil
}

// resultOf describes the change from the instance to the record `after`, and marks the new states on the chart.
func (c *console) resultOf(d *instanceData, after instances.Record, steps []statechart.Microstep, effects []statechart.Effect) (*trial, error) {
	t := &trial{}
	var err error
	if t.After, err = instanceview.Of(c.Machines, after); err != nil {
		return nil, err
	}
	for _, step := range steps {
		t.Left, t.Entered, t.Actions = append(t.Left, step.Exited...), append(t.Entered, step.Entered...), append(t.Actions, step.Actions...)
	}
	t.Tree, t.Migrated = treeOf(t.After.Context), t.After.Version != d.Version
	t.Started, t.Stopped = added(d.Instance.Timers, t.After.Timers), added(t.After.Timers, d.Instance.Timers)
	t.Calls = added(d.Services, t.After.Services)
	for _, effect := range effects {
		if _, armed := t.After.Timers[effect.Timer]; effect.Kind != statechart.Schedule || !armed {
			t.Effects = append(t.Effects, instanceview.EffectText(effect))
		}
	}
	d.Marks.Active = t.After.State
	return t, nil
}

// added returns the values whose keys are not in `before`, ordered by key.
func added[V any](before, after map[string]V) (values []V) {
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[key]; !had {
			values = append(values, after[key])
		}
	}
	return values
}

// command returns the command line that sends the event of the posted form.
func (c *console) command(d *eventData, body json.RawMessage) string {
	words := []string{c.Write.Command, shellescape.Quote(d.Name), shellescape.Quote(d.Event)}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(body, &values) // body comes from fill.
	for _, f := range d.Fields {
		value, given := values[f.Key]
		var text string
		switch {
		case f.Key == "":
			delete(values, "type")
			delete(values, "$id")
			payload, err := json.Marshal(values)
			if err != nil {
				panic(err) // The values are valid JSON.
			}
			words = append(words, "--json", shellescape.Quote(string(payload)))
		case !given:
		case json.Unmarshal(value, &text) == nil && value[0] == '"':
			words = append(words, shellescape.Quote(f.Key+"="+text))
		default:
			words = append(words, shellescape.Quote(f.Key+":="+string(value)))
		}
	}
	if d.EventID != "" {
		words = append(words, shellescape.Quote("--id="+d.EventID))
	}
	return strings.Join(words, " ")
}
