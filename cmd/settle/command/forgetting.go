package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// forgetting erases the data of instances. Call find, check and erase in this order. After find, it is safe for
// concurrent use.
type forgetting struct {
	*operator
	queues []dlqFlags
	// owned has the belongings of the instances and of their descendants, by owner.
	owned map[instances.ID][]dynamostore.Belonging
}

func newForgetting(o *operator, queues []dlqFlags) *forgetting {
	return &forgetting{operator: o, queues: queues, owned: map[instances.ID][]dynamostore.Belonging{}}
}

// find finds the items that belong to the instances and to their descendants. It reads the whole table for each
// generation.
func (f *forgetting) find(ctx context.Context, ids []instances.ID) error {
	progress := f.session.newProgress("item found", "items found")
	defer progress.end()
	seen := map[instances.ID]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	for len(ids) > 0 {
		var children []instances.ID
		for found, err := range f.store.Belongings(ctx, ids) {
			if err != nil {
				return err
			}
			progress.add()
			f.owned[found.Owner] = append(f.owned[found.Owner], found)
			if found.Kind != dynamostore.Child {
				continue
			}
			child, err := instances.ParseID(found.Key)
			if err != nil {
				return err
			}
			if !seen[child] {
				seen[child] = true
				children = append(children, child)
			}
		}
		ids = children
	}
	return nil
}

// family returns the instance and its descendants, children before their parents. erase replaces their items in this
// order, so the instance's own item expires last. After an interrupted run, the next run still finds the instance and
// erases the rest.
func (f *forgetting) family(id instances.ID) []instances.ID {
	var family []instances.ID
	seen := map[instances.ID]bool{}
	var visit func(instances.ID)
	visit = func(id instances.ID) {
		if seen[id] {
			return
		}
		seen[id] = true
		for _, found := range f.owned[id] {
			if child, err := instances.ParseID(found.Key); found.Kind == dynamostore.Child && err == nil {
				visit(child)
			}
		}
		family = append(family, id)
	}
	visit(id)
	return family
}

// left returns the stored record of an instance, and the record that remains after the erasure. Both are equal if an
// earlier run erased the instance and no event has arrived since. left fails with errNotFound or ErrInUse.
func (f *forgetting) left(ctx context.Context, id instances.ID, op instances.Operation) (stored, left instances.Record, err error) {
	stored, err = f.store.Load(ctx, id)
	switch {
	case err != nil:
		return stored, left, err
	case stored.Revision == 0:
		return stored, left, f.table.missing(f.machines, id)
	case isEmpty(stored):
		return stored, stored, nil
	}
	left, _, err = durable.Operate(f.machines, stored, op)
	if errors.Is(err, instances.ErrInUse) {
		err = fmt.Errorf("%w: %s", err, f.advice(stored))
	}
	return stored, left, err
}

// isEmpty reports whether an operator has erased the record and no later event has changed it.
func isEmpty(record instances.Record) bool {
	return record.Forgotten && len(record.History) == 1 && len(record.RecentEvents) == 0 && len(record.Tokens) == 0 && record.Error == nil
}

// advice returns the next step for an instance that is in use.
func (f *forgetting) advice(record instances.Record) string {
	id, s := record.Instance.String(), f.session
	switch {
	case record.Status == statechart.Active:
		return fmt.Sprintf("end it first with %s or %s", s.hint("stop", id), s.hint("terminate", id))
	case record.Kept:
		return "release it first with " + s.hint("unkeep", id)
	default:
		return "wait until a consumer has performed them, or run " + s.hint("resume", id)
	}
}

// check returns a summary of the data to erase. It fails if the instance or one of its descendants cannot be forgotten.
// The error names each such instance.
func (f *forgetting) check(ctx context.Context, id instances.ID, op instances.Operation) (view.Forgotten, error) {
	shown := view.Forgotten{Instance: id.String(), By: op.By, Reason: op.Reason, Children: []string{}, Copies: view.Copies()}
	var refused []error
	for _, member := range f.family(id) {
		_, left, err := f.left(ctx, member, op)
		switch {
		case errors.Is(err, instances.ErrInUse):
			refused = append(refused, err)
		case errors.Is(err, errNotFound) && member != id: // The descendant has expired since it was found.
		case err != nil:
			return shown, err
		}
		if member == id {
			shown.Revision, shown.ExpireAt = left.Revision, left.ExpireAt
		} else {
			shown.Children = append(shown.Children, member.String())
		}
		for _, found := range f.owned[member] {
			switch found.Kind {
			case dynamostore.Alias:
				shown.Aliases++
			case dynamostore.EventID:
				shown.EventIDs++
			case dynamostore.Send:
				shown.Sends++
			default:
			}
		}
	}
	if len(refused) > 0 {
		return shown, fmt.Errorf("nothing of %s was erased: %w", id, errors.Join(refused...))
	}
	return shown, nil
}

// parked deletes or only counts the messages of the family in the dead-letter queues. The count is too low if a FIFO
// queue does not offer all messages at once.
func (f *forgetting) parked(ctx context.Context, family []instances.ID, countOnly bool) (count int, err error) {
	names := map[string]bool{}
	for _, id := range family {
		names[id.String()] = true
	}
	for _, queue := range f.queues {
		unnamed, others := 0, 0
		progress := f.session.newProgress("message received", "messages received")
		err := queue.read(ctx, f.session, progress, func(_ *sqs.Client, r *deadletter.Reader, _ deadletter.Content) error {
			for m, err := range r.All(ctx) {
				if err = cmp.Or(err, ctx.Err()); err != nil {
					return err
				}
				progress.add()
				if m.Instance == "" {
					unnamed++
				}
				if !names[m.Instance] {
					continue
				}
				count++
				if countOnly {
					continue
				}
				if err := r.Delete(ctx, m); err != nil {
					return err
				}
			}
			has, err := r.Content(ctx)
			others = has.InFlight - r.InHand()
			return err
		})
		if err != nil {
			return count, fmt.Errorf("looking for messages in %s: %w", queue.DeadLetterQueue, err)
		}
		if unnamed > 0 {
			f.note("%s in %s without the name of an instance: see %s", counted(unnamed, "message is", "messages are"), queue.DeadLetterQueue, f.session.hint("dlq list", "--dead-letter-queue", queue.DeadLetterQueue))
		}
		if others > 0 {
			f.note("About %s of %s in flight: run this command again in a moment.", counted(others, "message", "messages"), queue.DeadLetterQueue)
		}
	}
	return count, nil
}

// erase deletes the belongings of the family, and then replaces each member's item with an empty one. It does not
// rewrite an item that is already empty.
func (f *forgetting) erase(ctx context.Context, id instances.ID, op instances.Operation) error {
	progress := f.session.newTask("erasing " + id.String())
	defer progress.end()
	family := f.family(id)
	for _, member := range family {
		for _, found := range f.owned[member] {
			if found.Kind == dynamostore.Child {
				continue
			}
			if err := f.store.Erase(ctx, found); err != nil {
				return err
			}
		}
	}
	for _, member := range family {
		stored, err := f.store.Load(ctx, member)
		if err == nil && stored.Revision > 0 && !isEmpty(stored) {
			_, err = f.change(ctx, member, op, nil, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare loads the belongings of the next batch of a bulk run into memory, and drops the previous batch. It also
// deletes the batch's messages in the dead-letter queues, except for instances that check refuses.
func (f *forgetting) prepare(ctx context.Context, batch []chosen, op instances.Operation) error {
	var ids, all []instances.ID
	for _, next := range batch {
		id, err := instances.ParseID(next.instance)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	clear(f.owned)
	if err := f.find(ctx, ids); err != nil {
		return err
	}
	for _, id := range ids {
		_, err := f.check(ctx, id, op)
		switch {
		case err == nil:
			all = append(all, f.family(id)...)
		case ctx.Err() != nil || isTemporary(err) || errors.Is(err, durable.ErrDenied):
			return err
		}
	}
	_, err := f.parked(ctx, all, false)
	return err
}
