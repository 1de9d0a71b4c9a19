package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes a Loop. The zero value is useful.
type Config struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Logger takes a line a transition, a line a failure and what charts log (statechart.Log).
	// Defaults to slog.Default. The transitions are at DEBUG if Observer.Applied tells of events.
	Logger *slog.Logger
	// Observer hears of what the loop does: for logs, metrics and traces. Defaults to nobody.
	Observer Observer
	// Emit takes an event that an instance emits (statechart.Emit), in order and at least once,
	// after the commit that contains it: a repeat has the same ID. An error, or a panic, is tried
	// again until there is none, and the instance takes no event until then: what must not hold an
	// instance up, Emit logs and answers with nil. Nil means that nobody listens: what is emitted
	// then is dropped and costs no write.
	Emit func(ctx context.Context, from InstanceID, id string, event json.RawMessage) error
	// AttemptsMax is how often an event that the chart's own code fails on is tried before
	// it is parked. Defaults to 3. A service has its own RetryPolicy.
	AttemptsMax int
	// AbandonedMax is how many tries of an event may come to no end, because they killed
	// the process or what they need was out of reach, before it is parked. Defaults to 10.
	AbandonedMax int
	// ServicesMax is how many services may begin for each event, attempts not counted, until the instance is settled.
	// Further ones are not called and have failed, to the chart; after ten of them the instance counts as one that
	// cannot settle. Each service is a write: that is all that a chart costs whose services lead to one another for ever.
	// Defaults to 1000, an hour of calls every four seconds; what polls longer waits in a settled state (After).
	ServicesMax int
	// DeniedWaitMax is how long an effect that AWS denies for want of a permission or a resource (ErrDenied)
	// is tried again, and holds its instance up, before it is given up: see FailedEffect. Defaults to one hour.
	DeniedWaitMax time.Duration
	// Backoff is the wait before a failed delivery is tried again. Defaults to one second,
	// doubled up to five minutes; its Attempts is not used.
	Backoff statechart.RetryPolicy
	// AcknowledgeAfter is how long a batch may take before those of its groups that have finished are acknowledged
	// by Ports.Acknowledger, if there is one. Defaults to one second.
	AcknowledgeAfter time.Duration
	// ConflictsMax is how often one turn begins again after another writer was faster.
	// Defaults to 3.
	ConflictsMax int
	// DeadlineMargin is the time kept from the context's deadline for the loop itself:
	// services must end before it. Defaults to two seconds.
	DeadlineMargin time.Duration
	// SnapshotBytesMax limits the JSON of a snapshot. Defaults to 256 KiB, so that history
	// and outbox fit beside it into an item of 400 KB.
	SnapshotBytesMax int
	// HistoryMax is how many transitions an instance remembers. Defaults to 20.
	HistoryMax int
	// RecentEventsMax is how many producers' event IDs an instance remembers. Defaults to 50.
	RecentEventsMax int
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // The default of the injected clock is the only mention of the real one.
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Backoff.IntervalMax == 0 {
		c.Backoff.IntervalMax = 5 * time.Minute
	}
	c.Backoff.Attempts = int(^uint(0) >> 1)
	for _, field := range []struct {
		value    *int
		fallback int
	}{{&c.AttemptsMax, 3}, {&c.AbandonedMax, 10}, {&c.ServicesMax, 1000}, {&c.ConflictsMax, 3}, {&c.SnapshotBytesMax, 256 << 10}, {&c.HistoryMax, 20}, {&c.RecentEventsMax, 50}} {
		if *field.value == 0 {
			*field.value = field.fallback
		}
	}
	if c.DeniedWaitMax == 0 {
		c.DeniedWaitMax = time.Hour
	}
	if c.AcknowledgeAfter == 0 {
		c.AcknowledgeAfter = time.Second
	}
	if c.DeadlineMargin == 0 {
		c.DeadlineMargin = 2 * time.Second
	}
	return c
}

func (c Config) validate() error {
	if c.AttemptsMax < 1 || c.AbandonedMax < 1 || c.ServicesMax < 1 || c.ConflictsMax < 1 || c.SnapshotBytesMax < 1 || c.HistoryMax < 1 || c.RecentEventsMax < 1 {
		return fmt.Errorf("durable: expected positive limits in Config, got %+v", c)
	}
	if c.AcknowledgeAfter < 0 || c.DeadlineMargin < 0 || c.DeniedWaitMax < 0 || c.Backoff.Interval < 0 || c.Backoff.IntervalMax < 0 {
		return fmt.Errorf("durable: expected no negative durations in Config, got margin %v, acknowledgement after %v, wait for what is denied %v, back-off %+v", c.DeadlineMargin, c.AcknowledgeAfter, c.DeniedWaitMax, c.Backoff)
	}
	return nil
}
