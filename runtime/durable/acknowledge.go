package durable

import (
	"context"
	"fmt"
	"time"
)

// Acknowledger takes deliveries off the queue that are done with, before the others of their batch are.
type Acknowledger interface {
	// Acknowledge deletes the deliveries. One that is not deleted is acknowledged with its batch, or comes again.
	Acknowledge(ctx context.Context, deliveries []Delivery) error
}

// acknowledgeMax is how long one call of an Acknowledger may take: a batch is not to last longer for it than that.
const acknowledgeMax = 3 * time.Second

// acknowledgeEarly takes off the queue what is done with of a batch that takes longer than Config.AcknowledgeAfter, so that
// the groups that have finished are not locked until the slowest has. It returns when as many groups have finished; each
// sends what of it is done with.
//
// A group may be delivered to another consumer from then on. Its turns here are over: what they did is stored, and
// its effects are performed.
func (l *Loop) acknowledgeEarly(ctx context.Context, groups int, finished <-chan []Delivery) {
	wait, cancel := context.WithTimeout(ctx, l.config.AcknowledgeAfter)
	defer cancel()
	late := wait.Done()
	var done []Delivery
	isLate := false
	for groups > 0 {
		select {
		case deliveries := <-finished:
			done = append(done, deliveries...)
			groups--
		case <-late:
			isLate, late = true, nil
		}
		if !isLate || groups == 0 || len(done) == 0 {
			continue
		}
		if err := l.acknowledge(ctx, done); err != nil {
			l.config.Logger.WarnContext(ctx, "acknowledging before the end of the batch failed, its end will do", "deliveries", len(done), "error", err)
		}
		done = nil
	}
}

// acknowledge calls the Acknowledger, and does not wait for it longer than acknowledgeMax, nor into the time that is kept from the
// deadline.
func (l *Loop) acknowledge(ctx context.Context, done []Delivery) error {
	limited, cancel := l.withMargin(ctx)
	defer cancel()
	limited, cancelLimited := context.WithTimeoutCause(limited, acknowledgeMax, fmt.Errorf("no answer within %v", acknowledgeMax))
	defer cancelLimited()
	_, err := attempt(limited, func(ctx context.Context) (any, error) { return nil, l.ports.Acknowledger.Acknowledge(ctx, done) })
	return err
}
