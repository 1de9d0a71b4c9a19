package durable

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// lease hides the deliveries of a slow batch from other consumers for Config.Lease at a time, and is extended while the
// process lives. If the process dies, the queue delivers the messages again when the lease ends, long before the queue's
// own visibility timeout.
//
// A process that freezes, or cannot extend its lease, may lose its deliveries to another consumer. The conditional
// writes of the store then decide which of the two consumers applies an event.
type lease struct {
	// held are the deliveries that are neither acknowledged nor delayed. Only supervise uses it.
	held []Delivery
	// released takes deliveries out of the lease before the loop delays their retry. The channel is unbuffered, and
	// supervise does not receive from it during an extension. So no extension can run after the delay and replace the
	// backoff.
	released chan []Delivery
	// until is the end of the lease in Unix nanoseconds, or 0 before the lease begins.
	until atomic.Int64
}

func newLease(deliveries []Delivery) *lease {
	return &lease{held: deliveries, released: make(chan []Delivery)}
}

func (le *lease) release(deliveries []Delivery) {
	le.held = without(le.held, func(d Delivery) bool {
		return slices.ContainsFunc(deliveries, func(other Delivery) bool { return other.MessageID == d.MessageID })
	})
}

// hasEnded reports whether another consumer may have received the deliveries.
func (le *lease) hasEnded(now time.Time) bool {
	until := le.until.Load()
	return until != 0 && now.UnixNano() > until
}

// supervise returns once the given number of groups has finished. If the batch is still running after
// Config.SlowAfter, supervise acknowledges the finished groups, so that they need not wait for the slowest. It takes a
// lease on the other deliveries and extends it. From then on, it acknowledges each group as soon as the group finishes.
//
// The queue may then deliver an acknowledged group to another consumer. This is safe: the turns of the group are over,
// and its effects have been performed.
func (l *Loop) supervise(ctx context.Context, groups int, finished <-chan []Delivery, held *lease) {
	extend, cancel := after(ctx, l.config.SlowAfter)
	defer func() { cancel() }()
	isSlow := false
	var done []Delivery
	for groups > 0 {
		isTime := false
		select {
		case deliveries := <-finished:
			done = append(done, deliveries...)
			groups--
		case deliveries := <-held.released:
			held.release(deliveries)
		case <-extend:
			isSlow, isTime = true, true
		}
		if !isSlow || groups == 0 {
			continue
		}
		if len(done) > 0 && l.ports.Acknowledger != nil {
			l.acknowledge(ctx, done, held)
			done = nil
		}
		if !isTime {
			continue
		}
		wait := l.config.Lease / 3
		if !l.extend(ctx, held) {
			wait = l.config.Lease / 10
		}
		cancel()
		if extend, cancel = after(ctx, wait); ctx.Err() != nil {
			extend = nil // The invocation is over.
		}
	}
}

// after returns a channel that is closed when the wait is over or the context ends.
func after(ctx context.Context, wait time.Duration) (<-chan struct{}, context.CancelFunc) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	return waiting.Done(), cancel
}

// acknowledge deletes deliveries from the queue. If it fails, they stay in the lease until the batch ends.
func (l *Loop) acknowledge(ctx context.Context, done []Delivery, held *lease) {
	err := l.limited(ctx, func(ctx context.Context) error { return l.ports.Acknowledger.Acknowledge(ctx, done) })
	if err != nil {
		l.config.Logger.WarnContext(ctx, "early acknowledgement failed, will acknowledge with the batch", "deliveries", len(done), "error", err)
		return
	}
	held.release(done)
}

// extend hides the deliveries of the lease for Config.Lease from now, and reports whether that succeeded.
func (l *Loop) extend(ctx context.Context, held *lease) bool {
	deliveries, until := held.held, l.config.Now().Add(l.config.Lease).UnixNano()
	if len(deliveries) == 0 || !l.hasTime(ctx) {
		return true
	}
	held.until.CompareAndSwap(0, until) // The first call may take effect even if it fails.
	err := l.limited(ctx, func(ctx context.Context) error { return l.ports.Queue.Delay(ctx, deliveries, l.config.Lease) })
	if err != nil {
		l.config.Logger.WarnContext(ctx, "cannot extend the lease of a slow batch, will retry", "deliveries", len(deliveries), "error", err)
		return false
	}
	held.until.Store(until)
	return true
}

// limited runs a call for at most Config.AcknowledgeMax. It ends the call at the margin before the deadline.
func (l *Loop) limited(ctx context.Context, call func(context.Context) error) error {
	limited, cancel := l.withMargin(ctx)
	defer cancel()
	limit := l.config.AcknowledgeMax
	limited, cancelLimited := context.WithTimeoutCause(limited, limit, fmt.Errorf("no answer within %v", limit))
	defer cancelLimited()
	_, err := attempt(limited, func(ctx context.Context) (any, error) { return nil, call(ctx) })
	return err
}
