package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// pageRows is the number of instances that a page lists.
	pageRows = 50
	// stuckRead limits the instances that the filter for stuck ones reads before it offers to continue.
	stuckRead = 1000
	// stuckAfter is the time after which an unsettled instance, or one with an overdue timer, counts as stuck.
	stuckAfter = 2 * time.Minute
	// tagFailed is the tag of states that mean failure.
	tagFailed = "failed"
)

// The values of the parameter `only`.
const (
	onlyFailed = "failed"
	onlyStuck  = "stuck"
)

// machinesData is the data of the list of machines.
type machinesData struct {
	Machines []machineRow
	NoIndex  bool
}

type machineRow struct {
	ID      string
	Counts  dynamostore.Counts
	States  int
	Events  []string
	Version int
	// Problem says why the instances could not be counted, or is empty.
	Problem string
}

func (c *console) machinesPage(ctx context.Context) (*page, error) {
	data := &machinesData{}
	for _, id := range c.Machines.IDs() {
		machine, err := c.Machines.Lookup(id)
		if err != nil {
			return nil, err
		}
		r := machineRow{ID: id, Version: machine.Version(), Events: machine.Events(), States: len(machine.Describe().States) - 1}
		if r.Counts, err = c.countMachine(ctx, id); errors.Is(err, dynamostore.ErrNoIndex) {
			data.NoIndex = true
		} else if err != nil {
			r.Problem = problemOf(err).Error()
		}
		data.Machines = append(data.Machines, r)
	}
	return &page{Name: "machines", Title: "Machines", Parts: []string{"machines-list"}, Data: data}, nil
}

// countMachine counts the instances of a machine, within countTimeout.
func (c *console) countMachine(ctx context.Context, id string) (dynamostore.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return c.Store.Count(ctx, id)
}

// machineData is the data of a machine's page.
type machineData struct {
	selection
	Version  int
	Versions []int
	NoIndex  bool
	Counts   dynamostore.Counts

	Chart   *chart
	Marks   marks
	Mermaid string

	List       []listed
	Unreadable []string
	// Read is the number of instances that the filter for stuck ones read. More is the next page's address, or empty.
	Read int
	More string
	// Job is the bulk operation that is running on the machine, or nil.
	Job *jobData
}

// listed is a line of the list of instances.
type listed struct {
	instanceview.Instance
	ID   string
	Next *instanceview.Timer
	// Stuck says why the instance counts as stuck, or is empty.
	Stuck string
}

func (c *console) machinePage(ctx context.Context, id string, query url.Values) (*page, error) {
	machine, err := c.Machines.Lookup(id)
	if err != nil {
		return nil, notFound("There is no such machine.", err.Error())
	}
	data := &machineData{selection: selectionOf(id, query), Version: machine.Version(), Chart: c.charts.of(machine)}
	if job := running(c.jobs.list()); job != nil && job.Machine == id {
		data.Job = job
	}
	for _, version := range c.Machines.Versions(id) {
		data.Versions = append(data.Versions, version.Version())
	}
	if data.Chart == nil {
		data.Mermaid = machine.Mermaid()
	}
	p := &page{Name: "machine", Title: id, Parts: []string{"machine-head", "machine-marks", "machine-job", "machine-list"}, Data: data}
	if data.Counts, err = c.Store.Count(ctx, id); err == nil {
		data.Marks.Counts = data.Counts.States
		err = c.list(ctx, data, query.Get("cursor"))
	}
	if data.NoIndex = errors.Is(err, dynamostore.ErrNoIndex); data.NoIndex {
		return p, nil
	}
	if errors.Is(err, dynamostore.ErrCursor) {
		return nil, &problem{400, "The list has no such page.", err.Error()}
	}
	return p, err
}

// list reads the instances that the filters select.
func (c *console) list(ctx context.Context, data *machineData, cursor string) error {
	filter := data.filter()
	for {
		found, err := c.Store.ListPage(ctx, filter, pageRows, cursor)
		if err != nil {
			return err
		}
		data.Read += len(found.Records) + len(found.Unreadable)
		for _, item := range found.Unreadable {
			data.Unreadable = append(data.Unreadable, item.Instance)
		}
		for _, record := range found.Records {
			c.add(data, record)
		}
		cursor = found.Cursor
		if cursor == "" || data.Only != onlyStuck || len(data.List) >= pageRows || data.Read >= stuckRead {
			break
		}
	}
	if cursor != "" {
		data.More = c.listURL(data.selection, "cursor", cursor)
	}
	return nil
}

// add adds an instance to the list, unless the filter for stuck instances excludes it.
func (c *console) add(data *machineData, record instances.Record) {
	shown, err := instanceview.Of(c.Machines, record)
	if err != nil {
		data.Unreadable = append(data.Unreadable, record.Instance.String())
		return
	}
	l := lineOf(shown, record)
	l.Stuck = c.stuck(l, record)
	if data.Only != onlyStuck || l.Stuck != "" {
		data.List = append(data.List, l)
	}
}

// lineOf returns the line for an instance in a list, without Stuck.
func lineOf(shown instanceview.Instance, record instances.Record) listed {
	l := listed{Instance: shown, ID: record.Instance.ID}
	for _, t := range shown.Timers {
		if l.Next == nil || t.At.Before(l.Next.At) {
			l.Next = &t
		}
	}
	return l
}

// stuck returns the reason why an instance counts as stuck, or an empty text.
func (c *console) stuck(l listed, record instances.Record) string {
	now := c.Now()
	switch {
	case l.Status != statechart.Active:
		return ""
	case l.Next != nil && now.Sub(l.Next.At) > stuckAfter:
		return "timer overdue"
	case !l.Settled && now.Sub(record.UpdatedAt) > stuckAfter:
		return "not settled"
	case !record.DeniedSince.IsZero():
		return "AWS denies an effect"
	case record.Owes() && now.Sub(record.UpdatedAt) > stuckAfter:
		return "effects are waiting"
	default:
		return ""
	}
}

// Failed returns the number of instances with the tag failed.
func (d *machineData) Failed() int { return d.Counts.Tags[tagFailed] }

// byCount returns the keys in descending order of their counts.
func byCount(counts map[string]int) (keys []string) {
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return keys
}

// Failed returns the number of instances with the tag failed.
func (r machineRow) Failed() int { return r.Counts.Tags[tagFailed] }

// Busiest returns the states with the most instances, in descending order of their counts.
func (r machineRow) Busiest() []string {
	states := byCount(r.Counts.States)
	return states[:min(len(states), 5)]
}
