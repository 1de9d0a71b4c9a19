package awslocal

import (
	"container/list"
	"context"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// forever makes a receive wait until its context ends.
const forever time.Duration = -1

// receive receives messages. It waits for the time that the request sets, or else for the time that the queue sets. If
// the argument `wait` is not zero, it overrides both. It returns no messages if ctx ends first. Only pollers pass the
// value forever. If receive then returns messages, the poller must call finish after it has processed them.
func (c *Cloud) receive(ctx context.Context, in *sqs.ReceiveMessageInput, wait time.Duration) (out sqs.ReceiveMessageOutput, err *wire.Error) {
	queue := sqs.QueueName(in.QueueUrl)
	var timeout <-chan time.Time
	var place *list.Element
	for expired := false; ; {
		done, taken := false, false
		failed := c.locked(func(now time.Time) {
			if ctx.Err() != nil {
				out, err, done = sqs.ReceiveMessageOutput{}, gone(ctx), true
			} else {
				out, err = c.sqs.ReceiveMessage(now, in)
				if wait == 0 {
					wait = out.Wait
				}
				done = err != nil || len(out.Messages) > 0 || wait == 0 || expired
			}
			if taken = done && wait == forever && len(out.Messages) > 0; taken {
				c.busy++
			}
			switch {
			case done && place != nil:
				c.leave(queue, place)
			case !done && place == nil:
				place = c.enter(queue)
			}
		})
		if failed != nil && !done {
			c.change(func(time.Time) { c.leave(queue, place) })
		}
		if failed != nil && taken {
			c.finish()
		}
		if failed != nil {
			return sqs.ReceiveMessageOutput{}, failed
		}
		if done {
			return out, err
		}
		if timeout == nil && wait != forever {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-turn(place):
		case <-ctx.Done():
		case <-timeout:
			// Try one last time: a message that arrives at this instant must be received no matter which channel the
			// select picks.
			expired = true
		}
	}
}

// enter adds the caller to the line of waiting receives.
func (c *Cloud) enter(queue string) *list.Element {
	room, ok := c.rooms[queue]
	if !ok {
		room = &waitingRoom{waiting: list.New()}
		c.rooms[queue] = room
	}
	place := room.enter()
	c.arrange(queue)
	return place
}

// leave removes the caller from the line. If the caller leaves without a message, the next receive in line gets a turn.
func (c *Cloud) leave(queue string, place *list.Element) {
	c.rooms[queue].waiting.Remove(place)
	c.arrange(queue)
}

// arrange wakes the first of the waiting calls to ReceiveMessage. If no message may be available yet, arrange waits until
// the next one is.
func (c *Cloud) arrange(queue string) {
	room, ok := c.rooms[queue]
	if !ok {
		return
	}
	room.stop()
	if room.waiting.Len() == 0 {
		delete(c.rooms, queue)
		return
	}
	now := c.now()
	next, ok := c.sqs.NextReceivable(now, queue)
	switch {
	case !ok:
	case next.After(now):
		room.timer = time.AfterFunc(c.until(next, now), func() {
			c.change(func(time.Time) { c.arrange(queue) })
		})
	default:
		room.wakeFirst()
	}
}
