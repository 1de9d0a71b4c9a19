package states

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

type (
	startExecutionInput struct {
		StateMachineArn, Name string
		Input                 *string
	}
	stopExecutionInput struct {
		ExecutionArn string
		Error, Cause string
	}
	describeExecutionInput struct{ ExecutionArn, IncludedData string }
	listExecutionsInput    struct {
		StateMachineArn, StatusFilter, NextToken string
		MaxResults                               int
	}
	historyInput struct {
		ExecutionArn, NextToken string
		MaxResults              int
		ReverseOrder            bool
		IncludeExecutionData    *bool
	}
)

// startExecution starts an execution. While the execution runs, a repeated call with the same input returns the same
// answer. All other calls with the same name fail.
func (m *Model) startExecution(now time.Time, in *startExecutionInput) (any, *wire.Error) {
	machine, err := m.findMachine(in.StateMachineArn)
	if err != nil {
		return nil, err
	}
	if machine.Deleting {
		return nil, wire.Errorf("StateMachineDeleting", "State Machine is being deleted: '%s'", machine.arn())
	}
	text := "{}"
	if in.Input != nil {
		text = *in.Input
	}
	input, invalid := readPayload(text)
	switch {
	case invalid != nil:
		return nil, wire.Errorf("InvalidExecutionInput", "Invalid State Machine Execution Input: '%v'", invalid)
	case input.tooLarge():
		return nil, wire.Errorf("InvalidExecutionInput", "Invalid State Machine Execution Input: it has %d bytes, at most %d are allowed, nested at most %d deep", len(text), payloadBytesMax, nestingMax)
	}
	if in.Name == "" {
		in.Name = uuid("execution", m.counters.Execution+1)
	}
	if err := checkName(in.Name); err != nil {
		return nil, err
	}
	arn := executionARN + machine.Name + ":" + in.Name
	if x, exists := m.executions[arn]; exists {
		if x.Status != running || x.Input.text != text {
			return nil, wire.Errorf("ExecutionAlreadyExists", "Execution Already Exists: '%s'", arn)
		}
		return map[string]any{"executionArn": arn, "startDate": epoch(x.Started)}, nil
	}
	x := &execution{
		serial: m.count(&m.counters.Execution), machine: machine, revision: machine.revision,
		Machine: machine.serial, Revision: machine.Current,
		ARN: arn, Name: in.Name, Input: input, Status: running, Started: now,
	}
	m.executions[arn], m.bySerial[x.serial] = x, x
	machine.fileByStatus(x, "")
	m.announce(x, now)
	r := run{m: m, x: x, now: now}
	r.append(event{Type: "ExecutionStarted", Details: details{"input": text, "roleArn": x.revision.RoleARN}})
	r.timesOut()
	r.ready = append(r.ready, x.newFlow(nil, x.revision.machine.StartAt, input, 0))
	r.settle()
	return map[string]any{"executionArn": arn, "startDate": epoch(now)}, nil
}

// find returns the execution with an ARN.
func (m *Model) find(arn string) (*execution, *wire.Error) {
	if err := required("executionArn", arn); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(arn, "arn:aws:states:") || !strings.Contains(arn, ":execution:") {
		return nil, wire.Errorf("InvalidArn", "Invalid Arn: 'Invalid ARN prefix: %s'", arn)
	}
	x, ok := m.executions[arn]
	if !ok {
		return nil, wire.Errorf("ExecutionDoesNotExist", "Execution Does Not Exist: '%s'", arn)
	}
	return x, nil
}

// stopExecution aborts an execution. It does nothing if the execution has ended.
func (m *Model) stopExecution(now time.Time, in *stopExecutionInput) (any, *wire.Error) {
	x, err := m.find(in.ExecutionArn)
	if err != nil {
		return nil, err
	}
	if x.Status == running {
		failure := &Failure{Error: in.Error, Cause: in.Cause}
		r := run{m: m, x: x, now: now}
		r.stop(aborted, event{Type: "ExecutionAborted", Details: failureDetails(failure)}, failure)
	}
	return map[string]any{"stopDate": epoch(x.Stopped)}, nil
}

func (m *Model) describeExecution(now time.Time, in *describeExecutionInput) (any, *wire.Error) {
	x, err := m.find(in.ExecutionArn)
	if err != nil {
		return nil, err
	}
	if x.Status != running && x.Stopped.After(now.Add(-m.lag)) {
		ended := *x
		ended.Status, ended.Output, ended.Failure = running, nil, nil
		x = &ended
	}
	data := in.IncludedData != "METADATA_ONLY"
	out := x.summary()
	out["redriveCount"], out["redriveStatus"] = 0, "NOT_REDRIVABLE"
	out["redriveStatusReason"] = "awslocal does not support RedriveExecution"
	if data {
		out["input"], out["inputDetails"] = x.Input.text, map[string]any{"included": true}
	}
	if data && x.Output != nil {
		out["output"], out["outputDetails"] = x.Output.text, map[string]any{"included": true}
	}
	if x.Failure != nil {
		for name, value := range failureDetails(x.Failure) {
			out[name] = value
		}
	}
	return out, nil
}

// summary returns the entry of an execution in ListExecutions.
func (x *execution) summary() map[string]any {
	out := map[string]any{
		"executionArn": x.ARN, "stateMachineArn": x.machine.arn(), "name": x.Name,
		"status": x.Status, "startDate": epoch(x.Started),
	}
	if x.Status != running {
		out["stopDate"] = epoch(x.Stopped)
	}
	return out
}

// listExecutions lists the executions of a machine, newest first.
func (m *Model) listExecutions(_ time.Time, in *listExecutionsInput) (any, *wire.Error) {
	machine, err := m.findMachine(in.StateMachineArn)
	if err != nil {
		return nil, err
	}
	n, err := page(in.MaxResults)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", running, succeeded, failed, timedOut, aborted}, in.StatusFilter) {
		return nil, validation("1 validation error detected: Value '%s' at 'statusFilter' failed to satisfy constraint: Member must satisfy enum value set: [RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED]", in.StatusFilter)
	}
	list := machine.executions[in.StatusFilter]
	if in.NextToken != "" { // NextToken is the serial of the last execution on the previous page.
		before, err := strconv.ParseUint(in.NextToken, 16, 64)
		if err != nil {
			return nil, wire.Errorf("InvalidToken", "Invalid Token: '%s'", in.NextToken)
		}
		i, _ := slices.BinarySearch(list, before)
		list = list[:i]
	}
	listed := []any{}
	out := map[string]any{}
	for _, serial := range slices.Backward(list[max(0, len(list)-n):]) {
		listed = append(listed, m.bySerial[serial].summary())
		if len(listed) == n && len(list) > n {
			out["nextToken"] = strconv.FormatUint(serial, 16)
		}
	}
	out["executions"] = listed
	return out, nil
}

func (m *Model) describeStateMachineForExecution(_ time.Time, in *describeExecutionInput) (any, *wire.Error) {
	x, err := m.find(in.ExecutionArn)
	if err != nil {
		return nil, err
	}
	out := x.machine.describe(x.revision)
	out["updateDate"] = epoch(x.revision.At)
	return out, nil
}

func (m *Model) getExecutionHistory(now time.Time, in *historyInput) (any, *wire.Error) {
	x, err := m.find(in.ExecutionArn)
	if err != nil {
		return nil, err
	}
	n, err := page(in.MaxResults)
	if err != nil {
		return nil, err
	}
	shown := len(x.events)
	for shown > 1 && x.events[shown-1].At.After(now.Add(-m.lag)) {
		shown--
	}
	// NextToken is the ID of the next event.
	id, step := 1, 1
	if in.ReverseOrder {
		id, step = shown, -1
	}
	if in.NextToken != "" {
		next, invalid := strconv.Atoi(in.NextToken)
		if invalid != nil || next < 1 || next > len(x.events) {
			return nil, wire.Errorf("InvalidToken", "Invalid Token: '%s'", in.NextToken)
		}
		id = next
	}
	events := []any{}
	for ; id >= 1 && id <= shown && len(events) < n; id += step {
		events = append(events, x.events[id-1].output(id, in.IncludeExecutionData == nil || *in.IncludeExecutionData))
	}
	out := map[string]any{"events": events}
	if id >= 1 && id <= shown {
		out["nextToken"] = strconv.Itoa(id)
	}
	return out, nil
}
