package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// operation is a kind of operation on one instance, with its texts.
type operation struct {
	Kind               instances.OperationKind
	Name, Effect, Done string
}

// operationKinds are the operations of the console.
var operationKinds = []operation{
	{instances.Stop, "Stop", "Ends the instance. Its exit actions run, its timers end, and its children stop.", "The instance was stopped."},
	{instances.Terminate, "Terminate", "Ends the instance without its exit actions. Use it if a stop fails.", "The instance was terminated."},
	{instances.Move, "Move", "Takes the instance to another state. Exit and entry actions run.", "The instance was moved."},
	{instances.Keep, "Keep", "Prevents the deletion of the instance after its retention.", "The instance is kept."},
	{instances.Unkeep, "Unkeep", "Permits the deletion of the instance after its retention.", "The instance is no longer kept."},
}

// wakeForm is the form value that wakes an instance after an operation. It also names the notice that the instance was
// woken.
const wakeForm = "wake"

// reasonBytesMax limits the reason of an operation. The runtime would shorten longer ones.
const reasonBytesMax = 1 << 10

// operationData is the data of the page of an operation: its dry run, and the form that confirms it.
type operationData struct {
	*instanceData
	choice
	// NotWoken is set if the operation was performed, but no consumer was woken.
	NotWoken bool
	// Trial is the result of the dry run, or nil.
	Trial *trial
}

// choice is the operation that the user has chosen, for one instance or many.
type choice struct {
	// Operation has no kind before the user chooses. To is the target state of a move, one of States. States is empty
	// if the machine does not list its states.
	Operation operation
	States    []string
	To        string
	Reason    string
	// Refusal says why nothing was changed, or is empty.
	Refusal string

	// op has no kind until the choice is complete.
	op instances.Operation
}

// operationOf returns the operation of a kind.
func operationOf(kind string) (operation, error) {
	at := slices.IndexFunc(operationKinds, func(o operation) bool { return string(o.Kind) == kind })
	if at < 0 {
		return operation{}, notFound("There is no such operation.", "The page of an instance or a machine leads to its operations.")
	}
	return operationKinds[at], nil
}

// complete sets op, unless the choice is a move without a target state or to a state that the machine does not have.
func (c *console) complete(chosen *choice, p *page, machine string) {
	if chosen.Operation.Kind != instances.Move {
		chosen.To = ""
	} else if chosen.To == "" {
		return
	} else if len(chosen.States) > 0 && !slices.Contains(chosen.States, chosen.To) {
		chosen.refuse(p, http.StatusUnprocessableEntity, fmt.Sprintf("Machine %s has no state %q that can be active: choose one of the list.", machine, chosen.To))
		return
	}
	chosen.op = instances.Operation{Kind: chosen.Operation.Kind, At: c.Now().UTC(), By: c.Write.By, Reason: chosen.Reason, State: chosen.To}
}

// refuse makes the page say why nothing was changed.
func (d *choice) refuse(p *page, status int, why string) {
	p.Status, d.Refusal = status, why+" Nothing was changed."
}

// Drawing returns the data of the chart's panel, which shows the states after the change.
func (d *operationData) Drawing() drawing {
	shown := d.instanceData.Drawing()
	if d.Trial != nil {
		shown.Heading = "Chart after the change"
	}
	return shown
}

// Operations returns the operations that the instance currently allows.
func (d *instanceData) Operations() (allowed []operation) {
	for _, o := range operationKinds {
		if d.refuses(o.Kind) == nil {
			allowed = append(allowed, o)
		}
	}
	return allowed
}

// refuses returns the reason why the instance does not allow the operation, or nil.
func (d *instanceData) refuses(kind instances.OperationKind) *problem {
	switch {
	case operations.Applies(kind, d.record):
		return nil
	case kind == instances.Keep:
		return &problem{http.StatusConflict, "The instance is kept already.", "Nothing was changed."}
	case kind == instances.Unkeep:
		return &problem{http.StatusConflict, "The instance is not kept.", "Nothing was changed."}
	default:
		return &problem{http.StatusConflict, "The instance has ended.",
			fmt.Sprintf("It is %s in %s. Nothing was changed. Its page shows who ended it.", d.Status, strings.Join(d.State, " and "))}
	}
}

// statesOf returns the states of a machine that a move can enter, or none if the machine does not list them.
func statesOf(machine durable.Machine) (states []string) {
	for _, state := range machine.Describe().States {
		if state.Path != "" && state.Type != statechart.ShallowHistory && state.Type != statechart.DeepHistory {
			states = append(states, state.Path)
		}
	}
	return states
}

// doneText returns the notice after an operation, or an empty text for an unknown one.
func doneText(kind string) string {
	if kind == wakeForm {
		return "The instance was woken."
	}
	o, _ := operationOf(kind) // The zero value has no text.
	return o.Done
}

// Operates reports whether this console may change instances.
func (c *console) Operates() bool { return c.Write != nil && c.Write.By != "" }

// isOperation reports whether the segments are the address of an operation that this console may perform.
func (c *console) isOperation(segments []string) bool {
	return len(segments) == 5 && segments[0] == "instances" && segments[3] == "operate" && c.Operates()
}

// operationURL returns the address of an operation on the instance with the name machine/id.
func (c *console) operationURL(name string, kind instances.OperationKind) string {
	return c.instanceURL(name) + "/operate/" + string(kind)
}

// operationPage shows a dry run of the operation on the stored instance, and writes nothing. For a move, `values`
// contains the target state.
func (c *console) operationPage(ctx context.Context, name, kind string, values url.Values) (*page, error) {
	p, _, err := c.readOperation(ctx, name, kind, values)
	return p, err
}

func (c *console) readOperation(ctx context.Context, name, kind string, values url.Values) (*page, *operationData, error) {
	chosen, err := operationOf(kind)
	if err != nil {
		return nil, nil, err
	}
	of, machine, err := c.readInstance(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	data := &operationData{instanceData: of, choice: choice{Operation: chosen, States: statesOf(machine), To: values.Get("state"), Reason: values.Get("reason")}}
	if refused := of.refuses(data.Operation.Kind); refused != nil {
		return nil, nil, refused
	}
	of.Marks.Taken, of.Marks.Parked = nil, nil
	p := &page{Name: "operation", Title: data.Operation.Name + " " + name, Data: data}
	if c.complete(&data.choice, p, machine.ID()); data.op.Kind == "" {
		return p, data, nil
	}
	after, steps, err := durable.Operate(c.Machines, of.record, data.op)
	if err != nil {
		data.refuse(p, http.StatusUnprocessableEntity, err.Error()+".")
		return p, data, nil //nolint:nilerr // The page shows it.
	}
	effects, tasks := instanceview.OwedBy(of.record, after)
	if data.Trial, err = c.resultOf(of, after, steps, effects); err != nil {
		return nil, nil, err
	}
	for _, task := range tasks {
		data.Trial.Effects = append(data.Trial.Effects, "answer the task "+task)
	}
	return p, data, nil
}

// operator returns the part of the console that changes instances.
func (c *console) operator() *operations.Operator {
	return &operations.Operator{Machines: c.Machines, Store: c.Write.Store, Queue: sender{c.Write.Queue}, NewID: rand.Text}
}

// sender turns a producer's queue into a durable.Sender.
type sender struct{ producer.Queue }

func (s sender) Send(ctx context.Context, message durable.Message) (string, error) {
	messageID, _, err := s.Enqueue(ctx, message)
	return messageID, err
}

// postOperation performs an operation whose dry run the user has confirmed, or wakes the instance after an operation.
func (c *console) postOperation(ctx context.Context, name, kind string, form url.Values) (answer, error) {
	id, err := instances.ParseID(name)
	if err != nil {
		return answer{}, notFound("This is not the name of an instance.", err.Error())
	}
	// A browser that disconnects must not end the operation between its write and its message.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	if form.Get("do") == wakeForm {
		return c.wake(ctx, id)
	}
	revision, err := strconv.ParseInt(form.Get("revision"), 10, 64)
	if err != nil || revision < 1 {
		return answer{}, &problem{http.StatusBadRequest, "The form cannot be read.", "Expected the revision of the dry run. Nothing was changed."}
	}
	p, data, err := c.readOperation(ctx, name, kind, form)
	switch {
	case err != nil:
		return answer{}, err
	case data.Trial == nil:
		p.Status = cmp.Or(p.Status, http.StatusBadRequest)
		return answer{page: p}, nil
	case len(data.Reason) > reasonBytesMax:
		data.refuse(p, http.StatusUnprocessableEntity, fmt.Sprintf("Expected a reason of at most %d bytes, got %d.", reasonBytesMax, len(data.Reason)))
		return answer{page: p}, nil
	}
	_, err = c.operator().Change(ctx, id, revision, func(instances.Record) (instances.Operation, error) { return data.op, nil })
	switch {
	case errors.Is(err, durable.ErrConflict):
		if p, data, err = c.readOperation(ctx, name, kind, form); err == nil {
			data.refuse(p, http.StatusConflict, fmt.Sprintf("The instance has changed since the dry run, from revision %d to %d. If its timeline shows this change, do not repeat it. Otherwise, confirm the new dry run.", revision, data.record.Revision))
		}
		return answer{page: p}, err
	case errors.Is(err, operations.ErrNotWoken):
		p.Status, data.NotWoken, data.Refusal = http.StatusBadGateway, true, err.Error()
		return answer{page: p}, nil
	case errors.Is(err, durable.ErrDenied), errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrUnstorable):
		data.refuse(p, http.StatusBadGateway, "The change cannot be stored: "+err.Error()+".")
		return answer{page: p}, nil
	case err != nil:
		p.Status = http.StatusBadGateway
		data.Refusal = err.Error() + ". The change may be stored or not: see the timeline of the instance before you try again."
		return answer{page: p}, nil
	}
	return answer{location: c.noticeURL(c.instanceURL(name), "changed", kind)}, nil
}

// wake sends the message that lets a consumer perform the effects of an operation.
func (c *console) wake(ctx context.Context, id instances.ID) (answer, error) {
	record, err := c.Write.Store.Load(ctx, id)
	if err != nil {
		return answer{}, err
	}
	if _, err := c.operator().Wake(ctx, record); err != nil {
		return answer{}, &problem{http.StatusBadGateway, "The instance may not be woken.", err.Error() + ". Go back, and wake it again."}
	}
	return answer{location: c.noticeURL(c.instanceURL(id.String()), "changed", wakeForm)}, nil
}
