package awslocal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// AdvanceMax is the longest duration for Advance: ten years.
	AdvanceMax = 10 * 365 * 24 * time.Hour
	// AheadMax limits how far Advance can move a clock ahead of the real clock: 200 years. A time.Duration overflows
	// after 292 years.
	AheadMax = 20 * AdvanceMax
)

var (
	// ErrRealClock is returned by Advance for a Cloud without Config.Clock.
	ErrRealClock = errors.New("the clock is real, so it cannot be advanced")
	// ErrAdvance is wrapped by Advance for a duration that is not positive, exceeds AdvanceMax, or would exceed AheadMax.
	ErrAdvance = errors.New("invalid duration")
	// ErrAdvancing is returned by Advance while another call of Advance runs.
	ErrAdvancing = errors.New("the clock is being advanced by another caller")
)

// Advanced is the result of Advance.
type Advanced struct {
	// From and To are the clock's times before and after the advance.
	From, To time.Time
	// Steps is the number of instants at which work was due.
	Steps int
}

// Advance moves Config.Clock forward by d and then up to the next whole second, because SQS and Scheduler count whole
// seconds. It stops at each instant at which work is due, such as when a schedule fires, a delay ends, or an
// execution's wait ends. At each instant it waits until the Cloud is idle: no function runs, and no poller or waiting
// receive can receive a message. If the work of an instant schedules more work within d, Advance performs that work
// too.
//
// While Advance waits, the clock stands still for at most ten seconds. Then it runs at the real rate until the Cloud is
// idle. Advance does not wait for clients that process messages received without Poll. The visibility timeouts of these
// messages end as usual.
//
// The clock moves by more than d if Advance waits for longer than d.
//
// If ctx ends, Advance leaves the clock where it is and returns the error of ctx. Advance also stops after EndAdvances.
// It stops as well when a queue loses its last poller, because nothing would process that queue's messages.
func (c *Cloud) Advance(ctx context.Context, d time.Duration) (Advanced, error) {
	switch {
	case c.clock == nil:
		return Advanced{}, ErrRealClock
	case d <= 0 || d > AdvanceMax:
		return Advanced{}, fmt.Errorf("%w: expected more than zero and at most %v, got %v", ErrAdvance, AdvanceMax, d)
	}
	select {
	case c.advancing <- struct{}{}:
		defer func() { <-c.advancing }()
	default:
		return Advanced{}, ErrAdvancing
	}
	if ahead := c.clock.Ahead() + d; ahead > AheadMax {
		return Advanced{}, fmt.Errorf("%w: expected a clock at most %v ahead of the real one, got %v", ErrAdvance, AheadMax, ahead.Round(time.Second))
	}
	c.mu.Lock()
	c.unpolled = ""
	c.mu.Unlock()
	if err := c.awaitIdle(ctx, nil); err != nil {
		return Advanced{}, err
	}
	done := Advanced{From: c.clock.Now()}
	err := c.advance(ctx, done.From.Add(d+time.Second-1).Truncate(time.Second), &done.Steps)
	c.clock.release()
	if failed := c.catchUp(); err == nil {
		err = failed
	}
	if err == nil {
		err = c.awaitIdle(ctx, nil) // If the work took longer than d, more work may be due.
	}
	done.To = c.clock.Now()
	return done, err
}

// advance moves the clock to the target in steps, and counts the steps.
func (c *Cloud) advance(ctx context.Context, target time.Time, steps *int) error {
	for {
		last := false
		err := c.awaitIdle(ctx, func(next time.Time, ok bool) {
			if last = !ok || next.After(target); last {
				next = target
			}
			c.clock.hold(next)
		})
		if err != nil {
			return err
		}
		if err := c.catchUp(); err != nil {
			return err
		}
		if last {
			return c.awaitIdle(ctx, nil)
		}
		*steps++
	}
}

// catchUp performs the work that became due when the clock moved, and resets all timers.
func (c *Cloud) catchUp() error {
	failed := c.locked(func(time.Time) {
		if c.alarm != nil {
			c.alarm.Stop()
			c.alarm = nil
		}
		for queue := range c.rooms {
			c.arrange(queue)
		}
	})
	if failed != nil {
		return failed
	}
	return nil
}

// next returns the next instant at which a schedule, an execution, a poller or a waiting receive has work. If work is
// already due, the instant is not later than the time `now`.
func (c *Cloud) next(now time.Time) (next time.Time, ok bool) {
	add := func(at time.Time, due bool) {
		if due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	add(c.scheduler.Next())
	add(c.states.Next())
	for queue := range c.polled {
		add(c.sqs.NextReceivable(now, queue))
	}
	for queue := range c.rooms {
		add(c.sqs.NextReceivable(now, queue))
	}
	return next, ok
}

// awaitIdle waits until no work is left at the current time; see Advance. Then it calls `move`, unless that is nil,
// with the results of c.next. No work can arrive before `move` returns.
func (c *Cloud) awaitIdle(ctx context.Context, move func(next time.Time, ok bool)) error {
	for {
		c.mu.Lock()
		if err := c.ended(); err != nil {
			c.mu.Unlock()
			return err
		}
		now := c.now()
		next, ok := c.next(now)
		if c.busy == 0 && (!ok || next.After(now)) {
			if move != nil {
				move(next, ok)
			}
			c.mu.Unlock()
			return nil
		}
		if c.stirred == nil {
			c.stirred = make(chan struct{})
		}
		stirred := c.stirred
		c.mu.Unlock()
		select {
		case <-stirred:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ended returns the reason why Advance must end, or nil.
func (c *Cloud) ended() error {
	switch {
	case c.stopping != nil:
		return c.stopping
	case c.closed:
		return notStored(errors.New("the data folder is closed"))
	case c.unpolled != "":
		return fmt.Errorf("queue %s lost its last poller while the clock was advanced", c.unpolled)
	default:
		return nil
	}
}

// EndAdvances ends running and later calls of Advance with the given reason. Call EndAdvances before the pollers stop.
func (c *Cloud) EndAdvances(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = reason
	c.stir()
}

// stir makes awaitIdle check again whether work is left.
func (c *Cloud) stir() {
	if c.stirred != nil {
		close(c.stirred)
		c.stirred = nil
	}
}

// finish records the end of one piece of work that `busy` counts.
func (c *Cloud) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.stir()
}
