package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// watchByIndex and watchByTable are the intervals of watch --machine, with and without the index.
	watchByIndex = 2 * time.Second
	watchByTable = 10 * time.Second
	// watchInstancesMax is the maximum number of instances that watch --machine follows.
	watchInstancesMax = 1000
)

// machineWatch is the set of instances that watch --machine follows.
type machineWatch struct {
	*watch
	filter dynamostore.Filter
	// byTable is set if the table has no index.
	byTable bool
	// seen has the active instances as last read. `listed` has the instances found by the last look.
	seen   map[instances.ID]instances.Record
	listed map[instances.ID]bool
	// unreadable has the instances whose items could not be read, to report each of them once.
	unreadable map[string]bool
}

// several prints the transitions of the instances that match the filter, until ctx ends.
func (w *watch) several(ctx context.Context, filter dynamostore.Filter) error {
	c := &machineWatch{watch: w, filter: filter, seen: map[instances.ID]instances.Record{}, unreadable: map[string]bool{}}
	progress := w.session.newProgress("instance found", "instances found")
	err := c.look(ctx, progress)
	progress.end()
	if err != nil {
		return err
	}
	if err := c.introduce(); err != nil {
		return err
	}
	for again := time.Duration(0); err == nil; {
		if err = w.pause(ctx, cmp.Or(again, c.pause())); err == nil {
			again, err = w.handleError(ctx, false, c.look(ctx, nil))
		}
	}
	return err
}

// pause returns the interval between two looks.
func (c *machineWatch) pause() time.Duration {
	switch {
	case c.flags.Every != nil:
		return *c.flags.Every
	case c.byTable:
		return watchByTable
	default:
		return watchByIndex
	}
}

// introduce prints the result of the first look, and the cost of a look.
func (c *machineWatch) introduce() error {
	s, counts := c.session, map[string]int{}
	for _, record := range c.seen {
		counts[strings.Join(record.State, ", ")]++
	}
	if !c.flags.json(s) {
		said := fmt.Sprintf("%s of %s %s active", counted(len(c.seen), "instance", "instances"), s.style.Bold(c.filter.Machine), map[bool]string{true: "is", false: "are"}[len(c.seen) == 1])
		for i, state := range slices.Sorted(maps.Keys(counts)) {
			said += fmt.Sprintf("%s %d in %s", map[bool]string{true: ":", false: ","}[i == 0], counts[state], s.style.State(state))
		}
		if err := s.printf("%s", s.style.Fold(said+"\n")); err != nil {
			return err
		}
	}
	what := "the index " + dynamostore.IndexName + " and these instances"
	if c.byTable {
		what = "the whole table " + c.flags.Table + ", which has no index " + dynamostore.IndexName
	}
	units := s.read.units()
	s.note("Each look reads %s: %s now, or about %d an hour at one look every %v.", what, counted(int(units), "read unit", "read units"), units*int64(time.Hour/c.pause()), c.pause())
	return nil
}

// look reads the instances. From the second call on, it prints the transitions since the last look, ordered by time.
func (c *machineWatch) look(ctx context.Context, first *progress) error {
	records, err := c.list(ctx, first)
	if err != nil {
		return err
	}
	listed := map[instances.ID]bool{}
	for _, record := range records {
		listed[record.Instance] = true
	}
	for id := range c.listed {
		if !listed[id] { // The instance has ended or left the filter, or the index is behind.
			record, err := c.store.Load(ctx, id)
			if err != nil {
				return err
			}
			records = append(records, record)
		}
	}
	c.listed = listed // Set this only after all reads, because a failed look is repeated.
	var fresh []watched
	var over []instances.Record
	for _, record := range records {
		seen, known := c.seen[record.Instance]
		if record.Revision < seen.Revision && record.Revision > 0 { // An earlier look has read a newer record.
			continue
		}
		c.seen[record.Instance] = record
		if record.Revision == 0 || record.Status != statechart.Active {
			delete(c.seen, record.Instance)
			over = append(over, record)
		}
		if first == nil && record.Revision > 0 && (!known || record.Revision != seen.Revision) {
			fresh = append(fresh, c.fresh(seen, record)...)
		}
	}
	return c.printLook(fresh, over)
}

// printLook prints transitions. It prints the end of an instance after the instance's last transition.
func (c *machineWatch) printLook(fresh []watched, over []instances.Record) error {
	slices.SortStableFunc(fresh, func(a, b watched) int { return a.At.Compare(b.At) })
	slices.SortFunc(over, func(a, b instances.Record) int { return strings.Compare(a.Instance.String(), b.Instance.String()) })
	for i, transition := range fresh {
		if err := c.write(transition); err != nil {
			return err
		}
		k := slices.IndexFunc(over, func(r instances.Record) bool { return r.Instance.String() == transition.Instance })
		if k < 0 || slices.ContainsFunc(fresh[i+1:], func(t watched) bool { return t.Instance == transition.Instance }) {
			continue
		}
		if err := c.writeEnd(over[k]); err != nil {
			return err
		}
		over = slices.Delete(over, k, k+1)
	}
	for _, record := range over {
		if record.Revision == 0 {
			c.session.note("%s no longer exists.", record.Instance)
		} else if err := c.writeEnd(record); err != nil {
			return err
		}
	}
	return nil
}

// list reads the instances from the index, or from the table if there is no index.
func (c *machineWatch) list(ctx context.Context, first *progress) ([]instances.Record, error) {
	report := func(item *dynamostore.ItemError) {
		if !c.unreadable[item.Instance] {
			c.unreadable[item.Instance] = true
			c.session.note("%s: %s", c.session.name(), oneLine(item))
		}
	}
	var records []instances.Record
	for record, err := range readable(listed(ctx, c.store, c.filter, &c.byTable), report) {
		if err != nil {
			return nil, err
		}
		if records = append(records, record); len(records) > watchInstancesMax {
			return nil, fmt.Errorf("expected at most %d active instances of %s, got more: narrow them down with --state or --tag", watchInstancesMax, c.filter.Machine)
		}
		if first != nil {
			first.add()
		}
	}
	return records, nil
}

// listed yields the instances as Store.List does. It reads the index, unless byTable is set. If there is no index, it
// sets byTable and reads the table.
func listed(ctx context.Context, store *dynamostore.Store, filter dynamostore.Filter, byTable *bool) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		if !*byTable {
			for record, err := range store.ListIndexed(ctx, filter) {
				if *byTable = errors.Is(err, dynamostore.ErrNoIndex); *byTable {
					break
				}
				if !yield(record, err) {
					return
				}
			}
		}
		if *byTable {
			store.List(ctx, filter)(yield)
		}
	}
}
