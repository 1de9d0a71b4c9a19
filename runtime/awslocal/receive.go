package awslocal

import (
	"container/list"
	"context"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// forever is the wait of a receive that only its context ends.
const forever time.Duration = -1

// receive receives messages, and waits for them as long as the request, or else the queue,
// says; a wait that is not zero overrides both. Whoever ends ctx gets no message.
func (c *Cloud) receive(ctx context.Context, in *sqs.ReceiveMessageInput, wait time.Duration) (out sqs.ReceiveMessageOutput, err *wire.Error) {
	queue := sqs.QueueName(in.QueueUrl)
	var timeout <-chan time.Time
	var place *list.Element
	for expired := false; ; {
		done := false
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
			// One last try: whether a message that comes at this very instant is received
			// must not depend on which channel the select takes.
			expired = true
		}
	}
}

// enter puts the caller in line for a message of the queue.
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

// leave takes the caller out of the line. If it goes without a message, the next in line
// may have it.
func (c *Cloud) leave(queue string, place *list.Element) {
	c.rooms[queue].waiting.Remove(place)
	c.arrange(queue)
}

// arrange lets the first receive that waits on the queue try again: now if there may be a
// message, or else at the instant when time will have brought one.
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
		room.timer = time.AfterFunc(next.Sub(now), func() {
			c.change(func(time.Time) { c.arrange(queue) })
		})
	default:
		room.wakeFirst()
	}
}
