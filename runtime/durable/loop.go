// Package durable is the loop that makes a statechart durable. It receives the deliveries of a FIFO queue, loads each
// instance from the store, and runs the instance's chart until it is settled. It commits state and effects in one
// conditional write, and only then performs the effects.
//
// The queue must deliver the events of one group in order and at least once. Then the package guarantees:
//
//   - An accepted event is applied to the snapshot exactly once, in the queue's order, or
//     parked in the dead-letter queue with its reason.
//   - An effect is performed only after the commit that contains it, at least once, under an
//     ID that identifies repeats.
//   - No event from outside is applied to an unsettled configuration.
//   - A stale writer cannot overwrite newer state.
//   - A stuck instance never delays other instances.
//
// Package durable does not depend on AWS. It reaches the outside through the interfaces in [Ports]: [Store], [Queue],
// [Timers], [Tokens], [Executions] and [Acknowledger].
package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Loop applies the deliveries of a FIFO queue to the instances of its machines. It keeps no state between calls and
// is safe for concurrent use.
type Loop struct {
	machines *Machines
	ports    Ports
	config   Config
}

// New returns a loop over the given machines and ports.
func New(machines *Machines, ports Ports, config Config) (*Loop, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := startable(machines, ports.Executions); err != nil {
		return nil, err
	}
	if limited := machines.firstLimited(); limited != "" && ports.Limiter == nil {
		return nil, fmt.Errorf("durable: machine %q limits its calls: set Ports.Limiter", limited)
	}
	for _, machine := range machines.all() {
		if retention := machine.Retention(); retention > 0 && retention < config.RetentionMin {
			return nil, fmt.Errorf("durable: machine %q keeps instances for %v after their end (Retention), but the queue keeps messages for %v (Config.RetentionMin): "+
				"a late message would start a new instance; set a longer Retention, or 0 to keep instances forever", machine.ID(), retention, config.RetentionMin)
		}
	}
	return &Loop{machines: machines, ports: ports, config: config}, nil
}

// slot says how a turn shares its invocation with other groups.
type slot int

const (
	// `together` runs a group at the same time as other groups.
	together slot = iota
	// `alone` runs the only group of a batch.
	alone
	// `first` runs a group by itself, before the others. It takes only a group that may kill the process. Any other
	// group runs in a later slot.
	first
	// afterOthers runs a group by itself, after the others, which may have used up the time.
	afterOthers
)

// conditions say how a turn takes part in its invocation.
type conditions struct {
	slot slot
	// began is the time at which the invocation began. A service must not lose an attempt because something else used
	// up the time.
	began time.Time
	// lease holds the deliveries of the batch.
	lease *lease
	// tooLarge is set if the end of an execution or a child did not fit into the item. The turn then leaves out the
	// output.
	tooLarge error
}

// firstEvery is the interval, in receives, at which a group that may kill the process runs before the rest of its
// batch. At other receives it runs after the rest, which may repeatedly leave too little time for the group's service.
const firstEvery = 8

// Handle processes one batch of deliveries: groups concurrently, the deliveries of a group in order. Groups that may
// kill the process run last, one at a time, but first at every eighth receive. Handle returns the message IDs of the
// failed deliveries, in the order of the batch. The queue must redeliver them. All other deliveries are done.
func (l *Loop) Handle(ctx context.Context, deliveries []Delivery) (failed []string) {
	groups, began := grouped(deliveries), l.config.Now()
	again := slices.Clone(groups) // the deliveries of each group that are not done
	suspicions := make([]int, len(groups))
	finished := make(chan []Delivery, len(groups))
	held := newLease(deliveries)
	finish := func(i int) {
		// The retried deliveries are the tail of the group. They keep the group locked until they become visible
		// again.
		finished <- groups[i][:len(groups[i])-len(again[i])]
	}
	var all sync.WaitGroup
	all.Go(func() {
		var others []int
		for i, group := range groups {
			slot := together
			if receives := group[0].ReceiveCount; len(groups) == 1 {
				slot = alone
			} else if receives > 0 && receives%firstEvery == 0 {
				slot = first
			}
			if slot != together {
				if again[i], suspicions[i] = l.handleGroup(ctx, again[i], conditions{slot: slot, began: began, lease: held}); suspicions[i] == 0 {
					finish(i)
					continue
				}
			}
			others = append(others, i)
		}
		var concurrent sync.WaitGroup
		for _, i := range others {
			concurrent.Go(func() {
				if again[i], suspicions[i] = l.handleGroup(ctx, again[i], conditions{slot: together, began: began, lease: held}); suspicions[i] == 0 {
					finish(i)
				}
			})
		}
		concurrent.Wait()
		for _, i := range suspects(suspicions) {
			again[i], _ = l.handleGroup(ctx, again[i], conditions{slot: afterOthers, began: began, lease: held})
			finish(i)
		}
	})
	l.supervise(ctx, len(groups), finished, held)
	all.Wait()
	isAgain := map[string]bool{}
	for _, group := range again {
		for _, d := range group {
			isAgain[d.MessageID] = true
		}
	}
	for _, d := range deliveries {
		if isAgain[d.MessageID] {
			failed = append(failed, d.MessageID)
		}
	}
	return failed
}

// grouped returns the deliveries by group, in the order of the batch.
func grouped(deliveries []Delivery) (groups [][]Delivery) {
	index := map[string]int{}
	for _, d := range deliveries {
		i, known := index[d.Group]
		if !known {
			i = len(groups)
			index[d.Group], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], d)
	}
	return groups
}

// suspects returns the indexes of the suspect groups, the least suspect first.
func suspects(suspicions []int) (order []int) {
	for i, suspicion := range suspicions {
		if suspicion > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(suspicions[a], suspicions[b]) })
	return order
}

// handleGroup processes the deliveries of one group. It returns the first failed delivery and all deliveries behind it.
// handleGroup has already delayed their retry. A suspicion other than 0 means that these deliveries were not tried:
// they must run in another slot.
func (l *Loop) handleGroup(ctx context.Context, deliveries []Delivery, under conditions) (rest []Delivery, suspicion int) {
	rest = deliveries
	if under.slot == afterOthers && !l.hasTime(ctx) {
		under.lease.released <- rest
		l.delay(ctx, rest, errors.New("no time left in this invocation"))
		return rest, 0
	}
	log := l.config.Logger.With("instance", deliveries[0].Group)
	for conflicts, fold := 0, len(deliveries); len(rest) > 0; {
		done, err := guarded(func() (int, error) { return l.observedTurn(ctx, rest[:min(fold, len(rest))], under) })
		at := standing{folded: fold > 1, conflicts: conflicts, overtaken: under.lease.hasEnded(l.config.Now())}
		if err != nil && l.fate(err, at) == parkIt {
			done, err = guarded(func() (int, error) { return l.parkUnstorable(ctx, rest[0], under, err) })
		}
		rest = rest[done:]
		if err == nil || len(rest) == 0 {
			continue
		}
		var suspect *suspectError
		switch l.fate(err, at) {
		case retryAlone:
			errors.As(err, &suspect)
			return rest, suspect.suspicion
		case retryAtOnce:
			conflicts++
			log.InfoContext(ctx, "retrying the turn", "error", err)
			if notify := l.config.Observer.Conflict; notify != nil {
				_, _ = guarded(func() (int, error) { notify(ctx, rest[0].Group); return 0, nil })
			}
		case retryOneByOne:
			fold = 1
		case retryIt, parkIt:
			under.lease.released <- rest
			l.delay(ctx, rest, err)
			return rest, 0
		}
	}
	return nil, 0
}

// guarded calls fn and returns a panic as an error. A crash in this package, in a port or in an observer would block
// all groups of the batch.
func guarded(fn func() (int, error)) (done int, err error) {
	defer func() {
		if r := recover(); r != nil {
			done, err = 0, statechart.Panicked(r)
		}
	}()
	return fn()
}

// address parses the name of an instance and checks that its machine is hosted.
func (l *Loop) address(group string) (instances.ID, error) {
	id, err := instances.ParseID(group)
	if err != nil {
		return instances.ID{}, err
	}
	_, err = l.machines.Lookup(id.Machine)
	return id, err
}
