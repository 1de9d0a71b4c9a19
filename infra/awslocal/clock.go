package awslocal

import (
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// holdMax limits how long Advance holds the clock for the work of one instant. Then the clock runs again, because the
// work may be waiting for a timer.
const holdMax = 10 * time.Second

// Clock is a virtual clock for Config.Clock. It starts at the real time and runs at the real rate. Cloud.Advance moves
// it forward. It is never behind the real clock, except while Advance holds it. It is safe for concurrent use.
type Clock struct {
	real func() time.Time

	mu sync.Mutex
	// `ahead` is the lead over the real clock while the clock is not held.
	ahead time.Duration
	// held is set while the clock stands still at the time `at`. `since` is the time of the real clock at which this
	// began.
	held      bool
	at, since time.Time
	// moved is set if `ahead` has changed since the last call of takeAhead.
	moved bool
}

// NewClock returns a clock that runs at the rate of the clock `machine`. Nil means time.Now.
func NewClock(machine func() time.Time) *Clock {
	if machine == nil {
		machine = time.Now
	}
	return &Clock{real: machine}
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// Ahead returns how far the clock is ahead of the real clock. It can be negative only while Advance holds the clock.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Sub(c.real())
}

func (c *Clock) now() time.Time {
	if !c.held {
		return c.real().Add(c.ahead)
	}
	return c.at.Add(max(0, c.real().Sub(c.since)-holdMax))
}

// hold moves the clock to the time `at`, unless the clock is already later, and holds it there for holdMax.
func (c *Clock) hold(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); at.Before(now) {
		at = now
	}
	c.held, c.at, c.since, c.moved = true, at, c.real(), true
}

// release lets the clock run again from the time at which it stands. If the clock would show a later time without the
// hold, it runs from that later time.
func (c *Clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = max(c.ahead, c.now().Sub(c.real()))
	c.held, c.moved = false, true
}

// until returns how much real time passes until c reaches t, if Advance does not move c.
func (c *Clock) until(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := t.Sub(c.now())
	if c.held && left > 0 {
		left += max(0, holdMax-c.real().Sub(c.since))
	}
	return left
}

// until returns how long a timer of package time must run until the clock reaches t.
func (c *Cloud) until(t, now time.Time) time.Duration {
	if c.clock == nil {
		return t.Sub(now)
	}
	return c.clock.until(t)
}

// takeAhead returns how far the clock is ahead, and whether it was moved since the last call.
func (c *Clock) takeAhead() (ahead time.Duration, moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved, c.moved = c.moved, false
	return max(c.ahead, c.now().Sub(c.real())), moved
}

// aheadRecord is the key of a clock's only record, which holds the clock's lead: a time.Duration as text in JSON.
const aheadRecord = "ahead"

// clockKeeper stores a clock in the data folder. The clock is nil without Config.Clock.
type clockKeeper struct{ clock *Clock }

// Keep implements keeper.
func (k clockKeeper) Keep() {}

// TakeRecords implements keeper.
func (k clockKeeper) TakeRecords() []record.Record {
	if k.clock == nil {
		return nil
	}
	ahead, moved := k.clock.takeAhead()
	if !moved {
		return nil
	}
	return []record.Record{{Key: aheadRecord, Value: wire.Encode(ahead.String())}}
}

// Restore implements keeper. It fails if the stored clock was advanced and Config.Clock is nil: with the real clock,
// time would run backwards.
func (k clockKeeper) Restore(records iter.Seq2[string, []byte]) error {
	for key, value := range records {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return fmt.Errorf("restoring the clock: record %q: %w", key, err)
		}
		ahead, err := time.ParseDuration(text)
		switch {
		case err != nil || key != aheadRecord:
			return fmt.Errorf("restoring the clock: expected a duration under %q, got %q under %q", aheadRecord, text, key)
		case k.clock == nil && ahead > 0:
			return fmt.Errorf("its clock was advanced and is %v ahead: run settle dev with --clock virtual, set Clock in awslocal.Config, "+
				"or choose another folder", ahead.Round(time.Second))
		case k.clock != nil:
			k.clock.ahead = ahead
		}
	}
	return nil
}
