package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// bulkMax limits the instances that a bulk operation reads.
	bulkMax = 10_000
	// samplesMax limits the instances of a bulk operation that get a dry run on the engine.
	samplesMax = 3
)

// selection is the filter of a list of instances.
type selection struct {
	Machine string
	// State is a state or a parent state. Prefix is the beginning of an ID. Only is onlyFailed or onlyStuck. Each may
	// be empty.
	State, Prefix, Only string
}

func selectionOf(machine string, values url.Values) selection {
	return selection{Machine: machine, State: values.Get("state"), Prefix: values.Get("prefix"), Only: values.Get("only")}
}

// Selection returns the selection of a page, for its template.
func (s selection) Selection() selection { return s }

// query returns the query string of the selection with `key` set to `value`. It leaves out filters that are not set.
func (s selection) query(key, value string) string {
	values := url.Values{"state": {s.State}, "prefix": {s.Prefix}, "only": {s.Only}}
	values.Set(key, value)
	maps.DeleteFunc(values, func(_ string, v []string) bool { return v[0] == "" })
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// listURL returns the address of the list of the selected instances, with the filter `key` set to `value`.
func (c *console) listURL(s selection, key, value string) string {
	return c.machineURL(s.Machine) + s.query(key, value)
}

// bulkURL returns the address of bulk operations on the selected instances.
func (c *console) bulkURL(s selection) string {
	return c.machineURL(s.Machine) + "/bulk" + s.query("", "")
}

// filter returns the filter for the store. The store cannot filter by onlyStuck, so the filter then also selects active
// instances that are not stuck.
func (s selection) filter() dynamostore.Filter {
	filter := dynamostore.Filter{Machine: s.Machine, State: s.State, Prefix: s.Prefix}
	switch s.Only {
	case onlyFailed:
		filter.Tag = tagFailed
	case onlyStuck:
		filter.Status = statechart.Active
	}
	return filter
}

// selects reports whether an instance of s.Machine matches the selection now.
func (c *console) selects(s selection, record instances.Record) bool {
	if !strings.HasPrefix(record.Instance.ID, s.Prefix) || s.State != "" && !isIn(record, s.State) {
		return false
	}
	if s.Only == "" {
		return true
	}
	shown, err := instanceview.Of(c.Machines, record)
	if err != nil {
		return false
	}
	if s.Only == onlyFailed {
		return slices.Contains(shown.Tags, tagFailed)
	}
	return c.stuck(lineOf(shown, record), record) != ""
}

// isIn reports whether the instance is in the state or in a descendant.
func isIn(record instances.Record, state string) bool {
	return slices.ContainsFunc(record.State, func(path string) bool { return path == state || strings.HasPrefix(path, state+".") })
}

// skips reports whether a bulk operation leaves the instance unchanged. If a user repeats an operation, it skips the
// instances that it has already changed.
func skips(op instances.Operation, record instances.Record) bool {
	return !operations.Applies(op.Kind, record) || op.Kind == instances.Move && isIn(record, op.State)
}

// matches are the selected instances of a bulk operation.
type matches struct {
	// IDs are the instances that the operation would change, and States counts them by state.
	IDs    []instances.ID
	States map[string]int
	// Read counts the instances that were read. Skipped counts the selected ones that the operation skips. Unreadable
	// counts those that this build cannot read.
	Read, Skipped, Unreadable int
	// TooMany is set if there are more than bulkMax instances to read.
	TooMany bool
}

// Order returns the states in descending order of their counts.
func (m *matches) Order() []string { return byCount(m.States) }

// match reads the selected instances until it has found `limit` instances that the operation would change. For an
// operation that needs an active instance, it reads only active ones.
func (c *console) match(ctx context.Context, s selection, op instances.Operation, limit int) (*matches, error) {
	filter := s.filter()
	if op.Kind != instances.Keep && op.Kind != instances.Unkeep {
		filter.Status = statechart.Active
	}
	found, seen := &matches{States: map[string]int{}}, map[instances.ID]bool{}
	for cursor := ""; ; {
		listed, err := c.Store.ListPage(ctx, filter, dynamostore.PageInstancesMax, cursor)
		if err != nil {
			return nil, err
		}
		found.Read += len(listed.Records) + len(listed.Unreadable)
		found.Unreadable += len(listed.Unreadable)
		for _, record := range listed.Records {
			switch {
			case seen[record.Instance] || !c.selects(s, record): // An instance that changes state meanwhile can appear on two pages.
				continue
			case skips(op, record):
				found.Skipped++
			case len(found.IDs) == limit:
				return found, nil
			default:
				found.IDs = append(found.IDs, record.Instance)
				for _, state := range record.State {
					found.States[state]++
				}
			}
			seen[record.Instance] = true
		}
		if cursor = listed.Cursor; cursor == "" {
			return found, nil
		}
		if found.Read >= bulkMax {
			found.TooMany = true
			return found, nil
		}
	}
}

// bulkData is the data of the page of a bulk operation: its dry run, and the form that starts a job.
type bulkData struct {
	selection
	choice
	Kinds []operation
	// Found is the result of the dry run, or nil. Samples are detailed dry runs on its first instances.
	Found   *matches
	Samples []sample
	// Cost is the cost of reading the instances, or empty if it is unknown.
	Cost string
	Jobs []jobData
}

// sample is the result of an operation's dry run on one instance, or the dry run's error.
type sample struct {
	Name  string
	Trial *trial
	Error string
}

// Max returns the limit of the instances that a bulk operation reads.
func (d *bulkData) Max() int { return bulkMax }

// Rate returns the maximum number of instances that a job changes per second.
func (d *bulkData) Rate() int { return jobRate }

// Takes returns the time that the job takes at its rate.
func (d *bulkData) Takes() time.Duration { return timeFor(len(d.Found.IDs)) }

// Text describes the selection.
func (s selection) Text() string {
	text := "all instances"
	if s.Only != "" {
		text = s.Only + " instances"
	}
	if s.State != "" {
		text += " in " + s.State
	}
	if s.Prefix != "" {
		text += " with an ID that begins with " + s.Prefix
	}
	return text
}

// isBulk reports whether the segments are the address of a bulk operation that this console may perform.
func (c *console) isBulk(segments []string) bool {
	return len(segments) == 3 && segments[0] == "machines" && segments[2] == "bulk" && c.Operates()
}

// bulkPage lists the instances that a bulk operation would change, and writes nothing.
func (c *console) bulkPage(ctx context.Context, machine string, values url.Values) (*page, error) {
	p, data, err := c.readBulk(machine, values)
	if err != nil || data.op.Kind == "" {
		return p, err
	}
	var before float64
	if c.ReadUnits != nil {
		before = c.ReadUnits()
	}
	if data.Found, err = c.match(ctx, data.selection, data.op, bulkMax); err != nil {
		return nil, listProblem(err)
	}
	for _, id := range data.Found.IDs[:min(samplesMax, len(data.Found.IDs))] {
		_, after, err := c.readOperation(ctx, id.String(), string(data.op.Kind), url.Values{"state": {data.To}})
		var changed *problem
		switch {
		case errors.As(err, &changed):
			data.Samples = append(data.Samples, sample{Name: id.String(), Error: changed.Error()})
		case err != nil:
			return nil, err
		default:
			data.Samples = append(data.Samples, sample{id.String(), after.Trial, after.Refusal})
		}
	}
	if c.ReadUnits != nil {
		units := c.ReadUnits() - before
		data.Cost = fmt.Sprintf("about %.4g read units, $%.6f", units, units*readUnitPrice)
	}
	return p, nil
}

// readBulk reads the selection and the operation from the values. The operation has no kind if the user chose none, or
// if it is refused.
func (c *console) readBulk(id string, values url.Values) (*page, *bulkData, error) {
	machine, err := c.Machines.Lookup(id)
	if err != nil {
		return nil, nil, notFound("There is no such machine.", err.Error())
	}
	data := &bulkData{
		selection: selectionOf(id, values), choice: choice{States: statesOf(machine), To: values.Get("to"), Reason: values.Get("reason")},
		Kinds: operationKinds, Jobs: c.jobs.list(),
	}
	if data.Only != "" && data.Only != onlyFailed && data.Only != onlyStuck {
		return nil, nil, &problem{http.StatusBadRequest, "There is no such filter.", fmt.Sprintf("Expected %s or %s, got %q. Nothing was changed.", onlyFailed, onlyStuck, data.Only)}
	}
	p := &page{Name: "bulk", Title: "Operate on instances of " + id, Data: data}
	kind := values.Get("operation")
	if kind == "" {
		return p, data, nil
	}
	if data.Operation, err = operationOf(kind); err != nil {
		return nil, nil, err
	}
	if c.complete(&data.choice, p, id); data.op.Kind == "" && data.Refusal == "" {
		data.refuse(p, http.StatusUnprocessableEntity, "Expected a new state for the move, got none: choose one.")
	}
	return p, data, nil
}

// Running returns the running job, or nil.
func (d *bulkData) Running() *jobData { return running(d.Jobs) }

// listProblem returns the page for an error from listing instances.
func listProblem(err error) error {
	if errors.Is(err, dynamostore.ErrNoIndex) {
		return &problem{http.StatusConflict, "The table has no index by_state.", "So the console cannot list instances. Nothing was changed. Use settle bulk, which can read the whole table."}
	}
	return err
}

// postBulk starts a job for the instances that match now. The form contains the number of instances in its dry run. The
// job changes at most that many.
func (c *console) postBulk(ctx context.Context, machine string, form url.Values) (answer, error) {
	p, data, err := c.readBulk(machine, form)
	if err != nil {
		return answer{}, err
	}
	count, err := strconv.Atoi(form.Get("count"))
	switch {
	case data.op.Kind == "":
		p.Status = cmp.Or(p.Status, http.StatusBadRequest)
		return answer{page: p}, nil
	case err != nil || count < 1 || count > bulkMax:
		return answer{}, &problem{http.StatusBadRequest, "The form cannot be read.", fmt.Sprintf("Expected the number of instances of the dry run, 1 to %d, got %q. Nothing was changed.", bulkMax, form.Get("count"))}
	case len(data.Reason) > jobReasonBytesMax:
		data.refuse(p, http.StatusUnprocessableEntity, fmt.Sprintf("Expected a reason of at most %d bytes, got %d.", jobReasonBytesMax, len(data.Reason)))
		return answer{page: p}, nil
	}
	found, err := c.match(ctx, data.selection, data.op, count)
	switch {
	case err != nil:
		return answer{}, listProblem(err)
	case found.TooMany:
		data.refuse(p, http.StatusUnprocessableEntity, fmt.Sprintf("Expected at most %d instances to read, got more: select fewer, or use settle bulk.", bulkMax))
		return answer{page: p}, nil
	case len(found.IDs) == 0:
		data.refuse(p, http.StatusConflict, "No instance matches any more.")
		return answer{page: p}, nil
	}
	started := c.startJob(data, found.IDs)
	if started == 0 {
		data.Jobs = c.jobs.list()
		data.refuse(p, http.StatusConflict, "Expected no running bulk operation, got one: wait until it ends, or stop it.")
		return answer{page: p}, nil
	}
	return answer{location: c.jobURL(started)}, nil
}
