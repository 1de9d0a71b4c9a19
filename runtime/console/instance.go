package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// instanceData is the data of an instance's page.
type instanceData struct {
	instanceview.Instance
	record instances.Record
	ID     string
	// Problem says why this build cannot run the instance, or is empty.
	Problem string
	Kept    bool
	Skipped int64

	Chart *chart
	Marks marks
	// Mermaid is the diagram of a machine that is not a chart.
	Mermaid string

	Rows []row
	// At is the number of the transition that the chart shows, or 0 for the present. First and Last are the numbers of
	// the transitions in the history.
	At, First, Last int64

	Timers     []timer
	Offers     []offer
	Accepted   int
	Running    []instanceview.Service
	Kids       []child
	Executions []instances.Execution
	Failed     []instances.FailedEffect
	// ParkedReason says why the last event was parked.
	ParkedReason string
	Tree, Out    *node
	// Sent is the ID of the message that a form has just sent, or empty. Changed is the notice after an operation.
	Sent, Changed string
}

// marks are the marks on a chart. The page and its stream contain them as JSON.
type marks struct {
	// Active are the paths of the active states. Visited are the paths of earlier states.
	Active  []string `json:"active,omitempty"`
	Visited []string `json:"visited,omitempty"`
	// Taken and Parked are keys of transitions: see chartEdge.keys.
	Taken  []string `json:"taken,omitempty"`
	Parked []string `json:"parked,omitempty"`
	// Counts contains the number of instances in each state.
	Counts map[string]int `json:"counts,omitempty"`
}

// row is a line of the timeline.
type row struct {
	instances.Transition
	Number int64
	Glyph  string
	Label  string
	Guard  string
	Kind   string // the kind of the event in words, or empty
	Left   []string
	Next   []string
	Marks  marks
	// Date is set if it differs from the date of the row above. In the newest row, it is set if it is not today's date.
	Date string
}

// timer is an armed timer.
type timer struct {
	instanceview.Timer
	LeadsTo string
	// From is the time when the timer was started, or the zero time if the history does not contain it.
	From time.Time
}

// offer is an event that the chart declares.
type offer struct {
	Event, LeadsTo string
	Accepted       bool
}

// child is a child instance.
type child struct {
	instanceview.Child
	ID string
}

// instancePage reads the page of the instance with the name machine/id. In the query, "at" is the number of a
// transition. After a form was posted, "sent" is the ID of the message that it sent, or "changed" is the operation that
// it performed.
func (c *console) instancePage(ctx context.Context, name string, query url.Values) (*page, error) {
	data, _, err := c.readInstance(ctx, name)
	if err != nil {
		return nil, err
	}
	data.goTo(query.Get("at"))
	address := c.instanceURL(name)
	data.Sent, data.Changed = c.notice(address, query, "sent"), doneText(c.notice(address, query, "changed"))
	return &page{
		Name: "instance", Title: name, Data: data,
		Parts: []string{"instance-head", "instance-say", "instance-marks", "instance-side", "instance-timeline", "instance-context"},
	}, nil
}

// readInstance reads the instance, and returns its machine.
func (c *console) readInstance(ctx context.Context, name string) (*instanceData, durable.Machine, error) {
	id, err := instances.ParseID(name)
	if err != nil {
		return nil, nil, notFound("This is not the name of an instance.", err.Error())
	}
	if _, err := c.Machines.Lookup(id.Machine); err != nil {
		return nil, nil, notFound("There is no such machine.", err.Error())
	}
	record, err := c.Store.Load(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if record.Revision == 0 {
		return nil, nil, notFound("There is no instance "+name+".", "An event that starts an instance creates it. An instance that has ended is deleted after its retention.")
	}
	shown, err := instanceview.Of(c.Machines, record)
	if err != nil {
		return nil, nil, &problem{500, "This build cannot read the instance.", err.Error() + ". Repair the item: settle check lists all such instances."}
	}
	data := &instanceData{
		Instance: shown, record: record, ID: id.ID, Kept: record.Kept, Skipped: record.Skipped,
		Executions: record.Executions, Failed: record.FailedEffects, Tree: treeOf(shown.Context), Out: treeOf(shown.Output),
	}
	machine, _, err := c.Machines.Restore(record)
	if err != nil {
		data.Problem = "This build cannot run the instance: " + err.Error()
		if machine, err = c.Machines.Lookup(id.Machine); err != nil {
			return nil, nil, err
		}
	}
	if data.Chart = c.charts.of(machine); data.Chart == nil {
		data.Mermaid = machine.Mermaid(shown.State...)
	}
	if record.Error != nil {
		data.ParkedReason = record.Error.Message
	}
	data.readHistory(record)
	data.showDates(c.Now())
	data.readLists(machine)
	data.Marks.Parked = data.parkedEdges()
	return data, machine, nil
}

// readHistory builds the rows of the timeline, the newest first, and the marks of the present.
func (d *instanceData) readHistory(record instances.Record) {
	var snapshot struct {
		Steps int64 `json:"steps"`
	}
	_ = json.Unmarshal(record.Snapshot, &snapshot) // instanceview has read it already.
	// The first step is the start. Each later step and each ignored event has a transition.
	first := max(0, snapshot.Steps-1+record.Ignored-int64(len(record.History))) + 1
	m := marks{Active: []string{}, Visited: []string{}, Taken: []string{}}
	for i, transition := range record.History {
		r := row{Transition: transition, Number: first + int64(i)}
		r.Left, r.Next = difference(transition.From, transition.To)
		r.Label = transition.Event
		m.Visited = union(m.Visited, transition.From)
		r.Marks = marks{Active: transition.To, Visited: slices.Clone(m.Visited)}
		if d.Chart != nil {
			d.Chart.describe(&r)
			if !transition.Ignored {
				taken := d.Chart.taken(transition.Event, transition.From, transition.To)
				r.Marks.Taken = addKeys(nil, taken)
				for _, t := range taken {
					if t.Event != "" {
						r.Guard = cmp.Or(r.Guard, t.Guard)
					}
				}
			}
		}
		m.Taken = union(m.Taken, r.Marks.Taken)
		d.Rows = append(d.Rows, r)
	}
	d.First, d.Last = first, first+int64(len(record.History))-1
	slices.Reverse(d.Rows)
	m.Active = d.State
	d.Marks = m
}

// showDates sets the dates that the timeline shows.
func (d *instanceData) showDates(now time.Time) {
	const date = "Monday, 2006-01-02"
	above := now.UTC().Format(date)
	for i := range d.Rows {
		if of := d.Rows[i].At.UTC().Format(date); of != above {
			d.Rows[i].Date, above = of, of
		}
	}
}

// describe sets the label of the row's event.
func (c *chart) describe(r *row) {
	for _, e := range c.edges {
		if e.Event == r.Event && e.Kind != outline.External {
			r.Glyph, r.Label, r.Kind = e.Kind.Glyph(), e.Name, e.Words()
			return
		}
	}
}

// goTo makes the chart show the state after a transition.
func (d *instanceData) goTo(at string) {
	number, err := strconv.ParseInt(at, 10, 64)
	if err != nil || number < d.First || number >= d.Last {
		return
	}
	d.At = number
	taken := []string{}
	for _, r := range slices.Backward(d.Rows) {
		taken = union(taken, r.Marks.Taken)
		if r.Number == number {
			d.Marks = marks{Active: r.To, Visited: r.Marks.Visited, Taken: taken}
			return
		}
	}
}

// parkedEdges returns the transitions that the last parked event could take from the present state.
func (d *instanceData) parkedEdges() []string {
	if d.Parked == nil || d.Chart == nil || d.Parked.Event == "" {
		return nil
	}
	var keys []string
	for _, e := range d.Chart.reactions(d.State, d.Parked.Event) {
		keys = append(keys, e.keys()...)
	}
	return keys
}

// readLists builds the sorted lists of the page.
func (d *instanceData) readLists(machine durable.Machine) {
	for _, armed := range d.Instance.Timers {
		t := timer{Timer: armed}
		if d.Chart != nil {
			t.LeadsTo = leadsTo(d.Chart.candidates(armed.State, "after "+armed.After))
		}
		for _, r := range d.Rows { // the newest first
			if entered(r.From, r.To, armed.State) {
				t.From = r.At
				break
			}
		}
		d.Timers = append(d.Timers, t)
	}
	slices.SortFunc(d.Timers, func(a, b timer) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.After, b.After)) })
	d.Running = slices.SortedFunc(maps.Values(d.Services), func(a, b instanceview.Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
	for id, found := range d.Children {
		d.Kids = append(d.Kids, child{found, id})
	}
	slices.SortFunc(d.Kids, func(a, b child) int { return cmp.Compare(a.ID, b.ID) })
	if d.Status != statechart.Active {
		return
	}
	for _, event := range machine.Events() {
		o := offer{Event: event, Accepted: slices.Contains(d.NextEvents, event)}
		if o.Accepted {
			d.Accepted++
			if d.Chart != nil {
				o.LeadsTo = leadsTo(d.Chart.reactions(d.State, event))
			}
		}
		d.Offers = append(d.Offers, o)
	}
	slices.SortStableFunc(d.Offers, func(a, b offer) int { return compareBool(b.Accepted, a.Accepted) })
}

// Say returns the text that announces the state to screen readers.
func (d *instanceData) Say() string {
	if d.Status == statechart.Active {
		return "The instance is in " + strings.Join(d.State, " and ") + "."
	}
	return fmt.Sprintf("The instance is %s, in %s.", d.Status, strings.Join(d.State, " and "))
}

// entered reports whether a transition entered the state.
func entered(from, to []string, state string) bool {
	in := func(path string) bool { return within(path, state) }
	return slices.ContainsFunc(to, in) && !slices.ContainsFunc(from, in)
}

// difference returns the elements of a that b does not have, and the elements of b that a does not have.
func difference(a, b []string) (left, next []string) {
	for _, path := range a {
		if !slices.Contains(b, path) {
			left = append(left, path)
		}
	}
	for _, path := range b {
		if !slices.Contains(a, path) {
			next = append(next, path)
		}
	}
	return left, next
}

// union appends the elements of b that a does not have.
func union(a, b []string) []string {
	for _, element := range b {
		if !slices.Contains(a, element) {
			a = append(a, element)
		}
	}
	return a
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
