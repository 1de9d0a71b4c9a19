package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// execution is an execution of Step Functions.
type execution struct {
	name, workflow, input string
	// end is nil while the execution runs.
	end *statechart.ExecutionEnded
}

func (p *process) Start(ctx context.Context, e instances.Execution, input json.RawMessage) (arn string, err error) {
	arn = "arn of " + e.Name
	err = p.call(ctx, "Start", e.Workflow, func() error {
		if p.refusal != nil {
			return p.refusal
		}
		if len(e.Name) > 80 || strings.ContainsAny(e.Name, " <>{}[]?*\"#%\\^|~`$&,;:/") {
			return fmt.Errorf("InvalidName: %s", e.Name)
		}
		if p.executions[arn] == nil {
			p.executions[arn] = &execution{name: e.Name, workflow: e.Workflow, input: string(input)}
		}
		return nil
	})
	return arn, err
}

func (p *process) Describe(ctx context.Context, arn string) (end *statechart.ExecutionEnded, err error) {
	err = p.call(ctx, "Describe", arn, func() error {
		if p.executions[arn] == nil {
			return durable.ErrNoExecution
		}
		end = p.executions[arn].end
		return nil
	})
	return end, err
}

// only returns the one execution that was started.
func (w *world) only(t *testing.T) *execution {
	t.Helper()
	if len(w.executions) != 1 {
		t.Fatalf("want one execution, got %d", len(w.executions))
	}
	for _, e := range w.executions {
		return e
	}
	return nil
}

// ends gives the execution an end. EventBridge reports the end the given number of times, each time in a new message.
func (w *world) ends(t *testing.T, e *execution, end statechart.ExecutionEnded, times int) {
	t.Helper()
	end.Name = e.name
	e.end = &end
	message, ok, err := durable.ExecutionEnd([]byte(e.input), end)
	if err != nil || !ok {
		t.Fatalf("no instance started the execution: %v", err)
	}
	for range times {
		w.post(message.To.String(), string(message.Body))
	}
}

// printer is a machine that starts a workflow and logs its end.
func (w *world) printer() durable.Machine {
	p := payloads()
	p["printed"] = statechart.PayloadOf[statechart.ExecutionEnded]()
	note := statechart.Assign("note", func(b *basket, e statechart.ExecutionEnded) {
		if len(e.Output) > 1000 {
			b.Blob = string(e.Output)
			return
		}
		cause, _, _ := strings.Cut(e.Cause, ":")
		b.Log = append(b.Log, fmt.Sprintf("%s %s %s%s %s", e.Workflow, e.Status, e.Output, e.Error, cause))
	})
	begin := statechart.StartWorkflow("print", "printed", func(b basket, _ statechart.Event) any {
		return map[string]int{"items": len(b.Log), "bytes": len(b.Blob)}
	})
	big := statechart.StartWorkflow("print", "printed", func(b basket, _ statechart.Event) any { return map[string]string{"blob": b.Blob} })
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "printer", Version: 1, Initial: "idle", Payloads: p,
		On: []on{{Event: "printed", Actions: do{note}}, {Event: "add", Actions: do{keep}}},
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{
				{Event: "ship", Target: "printing"}, {Event: "hurry", Target: "busy"}, {Event: "doom", Target: "gone", Actions: do{begin}}, {Event: "grow", Actions: do{grow, big}}}},
			{ID: "printing", Tags: settled, Entry: do{begin}, On: []on{{Event: "cancel", Target: "gone"}, {Event: "again", Target: "printing", Reenter: true}}},
			{ID: "busy", Tags: settled, Entry: do{begin}, Defer: []string{"grow"}, On: []on{{Event: "printed", Target: "free", Actions: do{note}}}},
			{ID: "free", Tags: settled, On: []on{{Event: "grow", Actions: do{grow}}}},
			{ID: "gone", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
}

const printer1 = "printer/1"

var (
	printed    = statechart.ExecutionEnded{Status: statechart.ExecutionSucceeded, Output: json.RawMessage(`{"pages":2}`)}
	printedLog = `print SUCCEEDED {"pages":2} `
)

// inPrinterWorld runs a test in a world that has the machine printer, in virtual time.
func inPrinterWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(w.printer())
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		test(t, w)
		w.wantSound(t)
	})
}

// wantPrinted checks the log of the printer and the number of executions that it waits for.
func (w *world) wantPrinted(t *testing.T, waits int, want ...string) {
	t.Helper()
	w.wantLog(t, printer1, want...)
	if r := w.load(printer1); len(r.Executions) != waits || len(r.Outbox) != 0 {
		t.Errorf("want %d running executions and no outbox, got %+v and %v", waits, r.Executions, r.Outbox)
	}
}

// describes counts the polls of executions.
func (w *world) describes() int {
	return len(slices.DeleteFunc(slices.Clone(w.calls), func(call string) bool { return !strings.HasPrefix(call, "Describe ") }))
}
