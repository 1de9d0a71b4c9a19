package states

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
)

// run advances one execution at one point in time.
type run struct {
	m     *Model
	x     *execution
	now   time.Time
	ready []*flow // flows that are about to enter a state
	full  bool    // set once the history has reached its maximum
}

// settle runs flows until all of them wait for something or the execution has ended.
func (r *run) settle() {
	for len(r.ready) > 0 && !r.full {
		f := r.ready[0]
		r.ready = r.ready[1:]
		if !f.gone {
			r.enter(f)
		}
	}
	if r.full && r.x.Status == running {
		r.stop(failed, event{}, nil)
	}
	r.m.note(executionKey, r.x.serial)
}

// alarm performs the work that an alarm was set for.
func (r *run) alarm(a *alarm) {
	f := a.f
	switch {
	case f == nil:
		r.stop(timedOut, event{Type: "ExecutionTimedOut"}, nil)
	case f.Phase == waiting:
		r.m.clearWaits(f)
		r.exit(f, f.state.Next, f.Input)
	case f.Phase == retrying:
		r.m.clearWaits(f)
		r.attempt(f)
	case !f.TimesOut.IsZero() && !f.TimesOut.After(r.now):
		r.taskEnded(f, "TimedOut", &Failure{Error: asl.ErrorTimeout})
	default:
		r.taskEnded(f, "TimedOut", &Failure{Error: asl.ErrorHeartbeatTimeout})
	}
	r.settle()
}

// enter enters the next state of a flow.
func (r *run) enter(f *flow) {
	if r.x.machine.Deleting {
		r.stop(aborted, event{Type: "ExecutionAborted", Details: details{}}, nil)
		return
	}
	f.state = r.x.revision.machine.All[f.State]
	f.Entered, f.RetryCount, f.Tries = r.now, 0, make([]int, len(f.state.Retry))
	r.chain(f, event{Type: f.state.Type + "StateEntered", Details: details{"name": f.State, "input": f.Input.text}})
	f.EnteredAt = f.Last
	r.attempt(f)
}

// attempt runs the current state of a flow, for the first time or as a retry.
func (r *run) attempt(f *flow) {
	switch s := f.state; s.Type {
	case asl.Pass:
		r.pass(f)
	case asl.Choice:
		r.choose(f)
	case asl.Wait:
		r.wait(f)
	case asl.Succeed:
		r.exit(f, "", f.Input)
	case asl.Fail:
		r.failState(f)
	case asl.Task:
		r.callTask(f)
	default:
		r.fork(f)
	}
}

func (r *run) pass(f *flow) {
	s := f.state
	input, failure := s.InputPath.Apply(f.scope(f.Input.value), "InputPath")
	if failure == nil && s.Parameters != nil {
		input, failure = s.Parameters.Fill(f.scope(input))
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	switch {
	case s.HasResult:
		r.succeed(f, s.Result)
	case s.Parameters == nil && s.InputPath.All() && s.ResultPath.All():
		r.exit(f, s.Next, f.Input) // This keeps the text of the input unchanged.
	default:
		r.succeed(f, input)
	}
}

func (r *run) choose(f *flow) {
	input, failure := f.state.InputPath.Apply(f.scope(f.Input.value), "InputPath")
	var next string
	if failure == nil {
		next, failure = f.state.Choose(f.scope(input))
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	r.exit(f, next, f.Input)
}

func (r *run) wait(f *flow) {
	s := f.state
	input, failure := s.InputPath.Apply(f.scope(f.Input.value), "InputPath")
	until := s.Until
	switch {
	case failure != nil:
	case s.UntilPath != nil:
		until, failure = s.WaitUntil(f.scope(input))
	case s.Delay.Set:
		var seconds int
		seconds, failure = s.Delay.Value(f.scope(input))
		until = r.now.Add(time.Duration(seconds) * time.Second)
	}
	switch {
	case failure != nil:
		r.fail(f, failure)
	case until.After(r.now):
		f.Phase, f.Due = waiting, until
		r.m.setAlarm(f)
	default:
		r.exit(f, s.Next, f.Input)
	}
}

func (r *run) failState(f *flow) {
	scope := f.scope(f.Input.value)
	name, failure := f.state.Error.Value(scope, "ErrorPath")
	var cause string
	if failure == nil {
		cause, failure = f.state.Cause.Value(scope, "CausePath")
	}
	if failure == nil {
		failure = &Failure{Error: name, Cause: cause}
	}
	r.fail(f, failure)
}

// succeed computes the output of a state from its result.
func (r *run) succeed(f *flow, result any) {
	s := f.state
	var failure *Failure
	if s.ResultSelector != nil {
		result, failure = s.ResultSelector.Fill(f.scope(result))
	}
	if failure == nil {
		result, failure = s.ResultPath.Apply(f.Input.value, result)
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	r.exit(f, s.Next, newPayload(result))
}

// exit applies the output filters of a flow's state. The flow then enters the state `next`, or ends if `next` is empty.
func (r *run) exit(f *flow, next string, output payload) {
	output, failure := r.filterOutput(f, output)
	if failure == nil && output.tooLarge() {
		failure = tooLarge(f.state)
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	r.leave(f, next, output)
}

// leave leaves a flow's state with its final output.
func (r *run) leave(f *flow, next string, output payload) {
	r.chain(f, event{Type: f.state.Type + "StateExited", Details: details{"name": f.State, "output": output.text}})
	f.Input = output
	if next == "" {
		r.end(f)
		return
	}
	f.State = next
	r.ready = append(r.ready, f)
}

// tooLarge returns the failure of a state whose data exceeds the limits.
func tooLarge(s *asl.State) *Failure {
	return &Failure{Error: asl.ErrorDataLimitExceeded, Cause: "The state/task '" + s.Name + "' returned a result with a size exceeding the maximum number of bytes service limit."}
}

// filterOutput applies OutputPath. If the state passes its input on as its output, filterOutput first applies
// InputPath.
func (r *run) filterOutput(f *flow, output payload) (payload, *Failure) {
	s, value := f.state, output.value
	var failure *Failure
	passesOn := s.Type == asl.Choice || s.Type == asl.Wait || s.Type == asl.Succeed
	if passesOn {
		value, failure = s.InputPath.Apply(f.scope(value), "InputPath")
	}
	if failure == nil {
		value, failure = s.OutputPath.Apply(f.scope(value), "OutputPath")
	}
	if failure != nil {
		return payload{}, failure
	}
	if s.OutputPath.All() && (s.InputPath.All() || !passesOn) {
		return output, nil // This keeps the text of the output unchanged.
	}
	return newPayload(value), nil
}

// fail retries a failed state, continues with its catcher, or fails the flow.
func (r *run) fail(f *flow, failure *Failure) {
	s := f.state
	r.m.clearWaits(f)
	if i := s.Retrier(failure); i >= 0 && f.Tries[i] < s.Retry[i].MaxAttempts {
		f.Phase, f.Due = retrying, r.now.Add(s.Retry[i].Delay(f.Tries[i]))
		f.Tries[i]++
		f.RetryCount++
		r.m.setAlarm(f)
		return
	}
	catcher := s.Catcher(failure)
	if catcher == nil {
		r.failFlow(f, failure)
		return
	}
	errorOutput := map[string]any{"Error": failure.Error, "Cause": failure.Cause}
	output, mismatch := catcher.ResultPath.Apply(f.Input.value, errorOutput)
	if mismatch != nil {
		r.failFlow(f, mismatch)
		return
	}
	p := newPayload(output)
	if p.tooLarge() {
		r.failFlow(f, tooLarge(s))
		return
	}
	r.leave(f, catcher.Next, p)
}

// stop ends the execution and clears everything that it waits for.
func (r *run) stop(status string, last event, failure *Failure) {
	x := r.x
	if r.full {
		failure = asl.Runtime("The execution reached the maximum number of history events (%d).", eventsMax)
		status, last = failed, event{Type: "ExecutionFailed", Details: failureDetails(failure)}
	}
	for _, f := range x.Flows {
		r.m.clearWaits(f)
		f.gone = true
	}
	if last.Previous == 0 {
		last.Previous = len(x.events)
	}
	x.Flows, r.ready = nil, nil
	r.append(last)
	if x.alarm != nil {
		r.m.alarms.set(x.alarm, time.Time{})
	}
	x.Status, x.Stopped, x.Failure = status, r.now, failure
	if status != succeeded { // run.end announces a success once the output is set
		r.m.announce(x, r.now)
	}
	r.m.finished(x)
	r.m.note(executionKey, x.serial)
}
