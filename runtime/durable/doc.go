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
