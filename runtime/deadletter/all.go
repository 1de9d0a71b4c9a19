package deadletter

import (
	"context"
	"iter"
	"maps"
	"slices"
)

// All yields every message that the queue offers, once and in order within each group, until receiving fails.
//
// A full batch may end in the middle of a group. While the first messages of the group are in flight, the queue holds
// back the others. So at the end, All receives such groups again.
func (r *Reader) All(ctx context.Context) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		each := func(messages []*Message, err error) (more bool) {
			for _, m := range messages {
				if !yield(m, nil) {
					return false
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return err == nil
		}
		for {
			batch, err := r.Next(ctx)
			if !each(batch, err) {
				return
			}
			if len(batch) == 0 {
				break
			}
		}
		for groups := range slices.Chunk(r.cutGroups(), batchMax-1) {
			if !r.receiveAgain(ctx, groups, each) {
				return
			}
		}
	}
}

// cutGroups returns each group in hand whose last batch was full and that has fewer than ten messages in hand. The
// queue may hold back more messages of it.
func (r *Reader) cutGroups() []string {
	inHand := map[string]int{}
	for _, m := range r.inHand {
		inHand[m.Group]++
	}
	maps.DeleteFunc(inHand, func(group string, messages int) bool { return !r.cut[group] || messages >= batchMax })
	return slices.Sorted(maps.Keys(inHand))
}

// receiveAgain makes the messages of the groups visible, receives them, and passes the new ones to `each`. If that takes
// several batches, one of them may have cut a group again, so receiveAgain receives each group alone.
func (r *Reader) receiveAgain(ctx context.Context, groups []string, each func([]*Message, error) (more bool)) (more bool) {
	err := ctx.Err()
	if err == nil {
		err = r.putBack(ctx, func(m *Message) bool { return slices.Contains(groups, m.Group) })
	}
	if err != nil {
		return each(nil, err)
	}
	batches := 0
	for full := true; full; batches++ {
		batch, err := r.receive(ctx)
		full = len(batch) == batchMax && len(groups) > 1
		if !each(r.fresh(batch), err) {
			return false
		}
	}
	return batches == 1 || !slices.ContainsFunc(groups, func(group string) bool { return !r.receiveAgain(ctx, []string{group}, each) })
}
