package states

import (
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// iterationsMax is the maximum number of concurrent iterations of an inline Map state. MaxConcurrency cannot raise it
// (AWS Step Functions Developer Guide, "Using Map state in Inline mode in Step Functions workflows").
const iterationsMax = 40

// fork starts the flows of a Parallel or Map state.
func (r *run) fork(f *flow) {
	s := f.state
	input, failure := s.InputPath.Apply(f.scope(f.Input.value), "InputPath")
	if failure == nil && s.Type == asl.Parallel && s.Parameters != nil {
		input, failure = s.Parameters.Fill(f.scope(input))
	}
	n, atOnce := len(s.Branches), len(s.Branches)
	var items []any
	if failure == nil && s.Type == asl.Map {
		if items, failure = itemsOf(f, input); failure == nil {
			atOnce, failure = s.MaxConcurrency.Value(f.scope(input))
		}
		n = len(items)
		if atOnce == 0 || atOnce > iterationsMax {
			atOnce = iterationsMax
		}
	}
	work := newPayload(input)
	if failure == nil && work.tooLarge() {
		failure = tooLarge(s)
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	f.Phase, f.Work, f.items = joining, &work, items
	f.Results, f.Begun, f.AtOnce, f.Left = make([]*payload, n), 0, atOnce, n
	started := event{Type: s.Type + "StateStarted"}
	if s.Type == asl.Map {
		started.Details = details{"length": n}
	}
	r.chain(f, started)
	if n == 0 {
		r.join(f)
		return
	}
	for f.Phase == joining && f.Begun < min(n, atOnce) {
		r.begin(f, f.Last)
	}
}

// itemsOf returns the items of a Map state with the given effective input.
func itemsOf(f *flow, input any) ([]any, *Failure) {
	selected, failure := f.state.ItemsPath.Apply(f.scope(input), "ItemsPath")
	if failure != nil {
		return nil, failure
	}
	items, ok := selected.([]any)
	if !ok {
		return nil, asl.Runtime("Reference path of the field ItemsPath must point to array, not %s", document.Encode(selected))
	}
	return items, nil
}

// begin starts the next branch or iteration of the flow f. The first event of this branch or iteration follows the
// event with the ID `last`.
func (r *run) begin(f *flow, last int) {
	s, index := f.state, f.Begun
	f.Begun++
	if s.Type == asl.Parallel {
		child := r.x.newFlow(f, s.Branches[index].StartAt, *f.Work, last)
		child.Index = index
		r.ready = append(r.ready, child)
		return
	}
	if f.items == nil { // The items are missing after a restore.
		f.items, _ = itemsOf(f, f.Work.value)
	}
	item := newPayload(f.items[index])
	input := item
	if s.Parameters != nil {
		within := *f
		within.Index, within.Item = index, &item
		value, failure := s.Parameters.Fill(within.scope(f.Work.value))
		input = newPayload(value)
		if failure == nil && input.tooLarge() {
			failure = tooLarge(s)
		}
		if failure != nil {
			r.abortChildren(f)
			r.fail(f, failure)
			return
		}
	}
	child := r.x.newFlow(f, s.Branches[0].StartAt, input, last)
	child.Index, child.Item = index, &item
	r.chain(child, event{Type: "MapIterationStarted", Details: details{"name": s.Name, "index": index}})
	r.ready = append(r.ready, child)
}

// end ends a flow. The output of the flow is its current data, f.Input.
func (r *run) end(f *flow) {
	if f.Parent == 0 {
		output := f.Input
		r.stop(succeeded, event{Type: "ExecutionSucceeded", Previous: f.Last, Details: details{"output": output.text}}, nil)
		if r.x.Status == succeeded { // otherwise the history was full and the execution has failed
			r.x.Output = &output
			r.m.announce(r.x, r.now)
		}
		return
	}
	parent := r.x.flow(f.Parent)
	output := f.Input
	parent.Results[f.Index] = &output
	parent.Left--
	r.x.removeFlow(f)
	if parent.state.Type == asl.Map {
		r.append(event{Type: "MapIterationSucceeded", Previous: f.Last, Details: details{"name": parent.State, "index": f.Index}})
	}
	switch {
	case parent.Left == 0:
		parent.Last = f.Last
		r.join(parent)
	case parent.Begun < len(parent.Results):
		r.begin(parent, f.Last)
	}
}

// join combines the outputs of the flows of a Parallel or Map state into its result.
func (r *run) join(f *flow) {
	results := make([]any, len(f.Results))
	for i, result := range f.Results {
		results[i] = result.value
	}
	r.append(event{Type: f.state.Type + "StateSucceeded", Previous: f.Last})
	f.forget()
	r.succeed(f, results)
}

// forget clears the fields that only a running Parallel or Map state needs.
func (f *flow) forget() {
	f.Phase, f.Work, f.Results, f.items = moving, nil, nil, nil
	f.Begun, f.AtOnce, f.Left = 0, 0, 0
}

// failFlow fails a flow. The failure passes to the Parallel or Map state that contains the flow, or else to the
// execution. States.Runtime ends the execution at once.
func (r *run) failFlow(f *flow, failure *Failure) {
	if failure.Error == asl.ErrorRuntime {
		failure = asl.Runtime("An error occurred while executing the state '%s' (entered at the event id #%d). %s", f.State, f.EnteredAt, failure.Cause)
	}
	if f.Parent == 0 || failure.Error == asl.ErrorRuntime {
		r.stop(failed, event{Type: "ExecutionFailed", Previous: f.Last, Details: failureDetails(failure)}, failure)
		return
	}
	parent := r.x.flow(f.Parent)
	parent.Last = f.Last
	if parent.state.Type == asl.Map {
		r.chain(parent, event{Type: "MapIterationFailed", Details: details{"name": parent.State, "index": f.Index}})
	}
	r.x.removeFlow(f)
	r.abortChildren(parent)
	r.chain(parent, event{Type: parent.state.Type + "StateFailed"})
	r.fail(parent, failure)
}

// abortChildren aborts all child flows of a flow.
func (r *run) abortChildren(f *flow) {
	for _, child := range slices.Clone(r.x.Flows) {
		if child.Parent != f.ID {
			continue
		}
		r.abortChildren(child)
		began := child.state != nil
		r.m.clearWaits(child)
		r.x.removeFlow(child)
		if began {
			switch child.state.Type {
			case asl.Task, asl.Wait, asl.Parallel, asl.Map:
				r.append(event{Type: child.state.Type + "StateAborted", Previous: child.Last})
			}
		}
		if f.state.Type == asl.Map {
			r.append(event{Type: "MapIterationAborted", Previous: child.Last, Details: details{"name": f.State, "index": child.Index}})
		}
	}
	f.forget()
}

// timesOut sets the execution's timeout, if its machine has one.
func (r *run) timesOut() {
	if timeout := r.x.revision.machine.Timeout; timeout > 0 {
		r.x.TimesOut = r.now.Add(timeout)
		r.m.setTimeout(r.x)
	}
}

// setTimeout sets the alarm for an execution's timeout.
func (m *Model) setTimeout(x *execution) {
	if x.alarm == nil {
		x.alarm = &alarm{x: x, slot: absent}
	}
	var at time.Time
	if x.Status == running {
		at = x.TimesOut
	}
	m.alarms.set(x.alarm, at)
}
