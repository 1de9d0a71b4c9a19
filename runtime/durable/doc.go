// Package durable is the loop that makes a statechart durable: it takes deliveries of a FIFO
// queue, hydrates each instance from the store, runs its chart until it is settled, commits
// state and effects in one conditional write, and only then performs the effects.
//
// What it guarantees, given a queue that delivers the events of one group in order and at
// least once:
//
//   - An accepted event is applied to the snapshot exactly once, in the queue's order, or
//     parked in the dead-letter queue with its reason.
//   - An effect is performed only after the commit that contains it, at least once, under an
//     ID that makes repeats recognisable.
//   - No event from outside is applied to an unsettled configuration.
//   - A writer that lost its turn cannot overwrite newer state.
//   - One instance's trouble never delays another's.
//
// The package knows no AWS: what it needs is in its ports, [Store], [Queue] and [Timers].
package durable
