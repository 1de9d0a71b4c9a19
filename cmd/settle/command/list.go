package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

type listCommand struct {
	tableFlags
	filterFlags
	Limit      int    `default:"1000" help:"Stop after this many instances (${default})."`
	Cursor     string `placeholder:"CURSOR" help:"Continue where an earlier list with the same flags stopped."`
	Consistent bool   `help:"Read the whole table consistently instead of the index."`
	outputFlag
}

// The sources of a listing.
const (
	sourceIndex = "index"
	sourceTable = "table"
)

// listing is the result of a list command, and its JSON form.
type listing struct {
	Instances []view.Instance `json:"instances"`
	// Source is sourceIndex or sourceTable. Only the index is eventually consistent.
	Source string `json:"source"`
	// Cursor is the start of the next page, if there is one.
	Cursor string `json:"cursor,omitempty"`

	machines *durable.Machines
	progress *progress
	failures []error
}

// add adds an instance, or the error from reading it.
func (l *listing) add(record instances.Record, err error) {
	l.progress.add()
	var shown view.Instance
	if err == nil {
		shown, err = view.Of(l.machines, record)
	}
	if err != nil {
		l.failures = append(l.failures, err)
		return
	}
	l.Instances = append(l.Instances, shown)
}

// Run lists the instances. If some items cannot be read, it prints the others first, and then the errors.
func (c *listCommand) Run(ctx context.Context, s *session) error {
	if c.Limit < 1 {
		return fmt.Errorf("%w: --limit: expected at least 1, got %d", errUsage, c.Limit)
	}
	if c.Cursor != "" && c.Consistent {
		return fmt.Errorf("%w: expected either --cursor, which reads the index, or --consistent, which reads the table, got both", errUsage)
	}
	known, filter, store, err := c.choose(ctx, s, c.tableFlags)
	if err != nil {
		return err
	}
	filter.Consistent = c.Consistent
	found, err := c.find(ctx, s, store, filter, known)
	if errors.Is(err, dynamostore.ErrCursor) {
		return fmt.Errorf("%w: --cursor: expected the whole cursor that %s list printed for the same --machine, --state, --tag and --status, got %.100q; "+
			"omit --cursor to start from the beginning", errUsage, s.name(), c.Cursor)
	}
	if err != nil {
		return c.explain(s, err)
	}
	if len(found.Instances) == 0 && len(found.failures) > 0 {
		return c.explain(s, errors.Join(found.failures...))
	}
	switch {
	case c.json(s):
		err = s.printJSON(found)
	case len(found.Instances) == 0:
		err = s.printf("No instances.\n")
	default:
		err = view.WriteTable(s.Out, s.style, found.Instances, s.Now())
	}
	if len(found.Instances) == 0 {
		if place := c.unknownPlace(s, known); place != "" {
			s.note("No machine of this build has the %s.", place)
		}
	}
	c.note(s, found)
	return errors.Join(append(found.failures, err)...)
}

// find reads the index. If the table has no index, or if --consistent is set, it reads the table instead.
func (c *listCommand) find(ctx context.Context, s *session, store *dynamostore.Store, filter dynamostore.Filter, known *durable.Machines) (*listing, error) {
	found := &listing{Instances: []view.Instance{}, machines: known, progress: s.newProgress("instance found", "instances found")}
	defer found.progress.end()
	if !c.Consistent {
		err := c.findByIndex(ctx, store, filter, found)
		if err == nil || !errors.Is(err, dynamostore.ErrNoIndex) || c.Cursor != "" {
			return found, err
		}
	}
	c.findInTable(ctx, store, filter, found)
	return found, nil
}

func (c *listCommand) findByIndex(ctx context.Context, store *dynamostore.Store, filter dynamostore.Filter, found *listing) error {
	found.Source, found.Cursor = sourceIndex, c.Cursor
	for seen := 0; ; {
		page, err := store.ListPage(ctx, filter, min(c.Limit-seen, dynamostore.PageInstancesMax), found.Cursor)
		if err != nil {
			return err
		}
		for _, record := range page.Records {
			found.add(record, nil)
		}
		for _, unreadable := range page.Unreadable {
			found.add(instances.Record{}, unreadable)
		}
		seen += len(page.Records) + len(page.Unreadable)
		found.Cursor = page.Cursor
		if found.Cursor == "" || seen == c.Limit {
			return nil
		}
	}
}

// findInTable reads the table. Errors go to found.failures.
func (c *listCommand) findInTable(ctx context.Context, store *dynamostore.Store, filter dynamostore.Filter, found *listing) {
	found.Source, found.Cursor = sourceTable, ""
	for record, err := range store.List(ctx, filter) {
		if err == nil && len(found.Instances) == c.Limit {
			found.failures = append(found.failures, fmt.Errorf("more than %d instances: narrow the search or raise --limit", c.Limit))
			break
		}
		found.add(record, err)
	}
	slices.SortFunc(found.Instances, func(a, b view.Instance) int { return cmp.Compare(a.Name, b.Name) })
}

// note prints on standard error how to get the next page and, on a terminal, how the instances were found.
func (c *listCommand) note(s *session, found *listing) {
	switch {
	case found.Cursor != "":
		s.note("There are more: continue with --cursor %s", found.Cursor)
	case found.Source == sourceTable && !c.Consistent:
		s.note("Read the whole table: %s has no index %s.", c.Table, dynamostore.IndexName)
	case found.Source == sourceIndex && s.StderrTTY:
		s.note("Found by the index, which is eventually consistent. To read the whole table, use --consistent.")
	}
}

// placeFlags choose instances by machine, state and tag.
type placeFlags struct {
	Machine string `help:"Only instances of this machine."`
	State   string `help:"Only instances in this state, or in one inside it: unverified, unverified.registering."`
	Tag     string `help:"Only instances with this tag."`
}

type filterFlags struct {
	placeFlags
	Status string `enum:"active,done,stopped,any" default:"any" help:"Only instances with this status: active, done, stopped or any."`
}

// anyStatus is the value of --status for all instances.
const anyStatus = "any"

// filter validates the flags against the machines and returns the filter.
func (f placeFlags) filter(s *session, known *durable.Machines) (dynamostore.Filter, error) {
	filter := dynamostore.Filter{Machine: f.Machine, State: f.State, Tag: f.Tag}
	if f.Machine == "" {
		return filter, nil
	}
	if _, err := known.Lookup(f.Machine); err != nil {
		return filter, err
	}
	if err := checkState(known, f.Machine, f.State); err != nil {
		return filter, err
	}
	// If no version of the machine has the tag, the tag is a typo too. If the tags are unknown, every tag is accepted.
	if tags, listed := s.tags(f.Machine); f.Tag != "" && listed && !slices.Contains(tags, f.Tag) {
		return filter, fmt.Errorf("%w: machine %s has no tag %q: expected one of %s", errNotFound, f.Machine, f.Tag, strings.Join(tags, ", "))
	}
	return filter, nil
}

// checkState returns an error if no version of the machine has the state, because the state is then a typo. It accepts
// an empty state. If the states are unknown, it accepts every state.
func checkState(known *durable.Machines, machine, state string) error {
	states := statesOf(known.Versions(machine))
	if state == "" || len(states) == 0 || slices.Contains(states, state) {
		return nil
	}
	return fmt.Errorf("%w: machine %s has no state %q: expected one of %s", errNotFound, machine, state, strings.Join(states, ", "))
}

// unknownPlace returns the value of --state or --tag if no hosted machine has it. It returns "" if --machine is set, if
// every value is known, or if a machine does not list its states and tags. An unknown value is no error: the table may
// have instances of machines that are not hosted here.
func (f placeFlags) unknownPlace(s *session, known *durable.Machines) string {
	var states, tags []string
	for _, id := range known.IDs() {
		itsTags, listed := s.tags(id)
		itsStates := statesOf(known.Versions(id))
		if !listed || itsStates == nil {
			return ""
		}
		tags, states = append(tags, itsTags...), append(states, itsStates...)
	}
	switch {
	case f.Machine != "":
		return ""
	case f.State != "" && !slices.Contains(states, f.State):
		return fmt.Sprintf("state %q", f.State)
	case f.Tag != "" && !slices.Contains(tags, f.Tag):
		return fmt.Sprintf("tag %q", f.Tag)
	default:
		return ""
	}
}

// choose returns the machines, the filter, and the store of the table.
func (f filterFlags) choose(ctx context.Context, s *session, table tableFlags) (*durable.Machines, dynamostore.Filter, *dynamostore.Store, error) {
	known, err := s.machines()
	if err != nil {
		return nil, dynamostore.Filter{}, nil, err
	}
	filter, err := f.filter(s, known)
	if err != nil {
		return nil, dynamostore.Filter{}, nil, err
	}
	if f.Status != anyStatus {
		filter.Status = statechart.Status(f.Status)
	}
	store, err := table.store(ctx, s)
	return known, filter, store, err
}

// each calls `do` with each record, and with the error of each item that cannot be read. It stops at any other error.
func (f tableFlags) each(s *session, records iter.Seq2[instances.Record, error], progress *progress, do func(instances.Record, error)) error {
	defer progress.end()
	for record, err := range records {
		var item *dynamostore.ItemError
		if err != nil && !errors.As(err, &item) {
			return f.explain(s, err)
		}
		do(record, err)
		progress.add()
	}
	return nil
}
