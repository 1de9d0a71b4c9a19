package durable

import (
	"cmp"
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
	// AbandonedMax is how many tries of an event may come to no end, because the process died while they ran, before it is
	// parked. Failures of AWS do not count. Defaults to 10.
	AbandonedMax int
	// ServicesMax is how many services may begin for each event, attempts not counted, until the instance is settled.
	// Further ones are not called and have failed, to the chart; after ten of them the instance counts as one that
	// cannot settle. Each service is a write: that is all that a chart costs whose services lead to one another for ever.
	// Defaults to 1000, an hour of calls every four seconds; what polls longer waits in a settled state (After).
	ServicesMax int
	// RetentionMin is the shortest MachineConfig.Retention that New accepts: how long the queue keeps a message
	// (MessageRetentionPeriod). A message that comes after its instance was deleted would begin a new one. Defaults to 14 days,
	// the longest that SQS keeps one.
	RetentionMin time.Duration
	// DeniedWaitMax is how long an effect that AWS denies for want of a permission or a resource (ErrDenied)
	// is tried again, and holds its instance up, from the first denial until it is given up: see FailedEffect. Defaults to one
	// hour.
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
	// SendersMax is how many senders an instance remembers in its item, for each queue, with the last event that each has sent
	// to it. Those of further senders are items of their own. Defaults to 50.
	SendersMax int
	// FailedEffectsMax is how many failed effects an instance keeps, beside those that its chart has not received yet: the latest.
	// Defaults to 10.
	FailedEffectsMax int
	// OutboxMax is how many effects a turn collects before it stores and performs them. Defaults to 256.
	OutboxMax int
	// RefusalsMax is how many services beyond ServicesMax fail to the chart before the instance counts as one that cannot
	// settle: as many as regions may need to settle, or to try once to clean up. Defaults to 10.
	RefusalsMax int
	// AloneAfter is how many tries of an event may come to no end before it is processed alone, after the rest of its batch.
	// Defaults to 2.
	AloneAfter int
	// TimerEarlyMax is how early a timer's firing may be for the difference of two clocks. An earlier one was not sent by the
	// loop and must not lock its group until it is due. Defaults to 6 minutes, longer than the five for which SQS drops the
	// next firing as a duplicate of this one (SQS Developer Guide, "Exactly-once processing in Amazon SQS").
	TimerEarlyMax time.Duration
	// HeartbeatRetryMin and HeartbeatRetryMax are the waits before a failed heartbeat is retried; the wait doubles. They default
	// to 10 seconds and 15 minutes.
	HeartbeatRetryMin, HeartbeatRetryMax time.Duration
	// PollMin and PollMax are the waits between two looks at an execution; the wait doubles. They default to 15 minutes and a day.
	PollMin, PollMax time.Duration
	// PostponeMin and PostponeMax are the waits before a message of the runtime that cannot be applied comes again; the wait
	// doubles. They default to one minute and one hour.
	PostponeMin, PostponeMax time.Duration
	// AcknowledgeMax is how long an early acknowledgement may take. Defaults to 3 seconds.
	AcknowledgeMax time.Duration
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
	for _, limit := range c.limits() {
		*limit.value = cmp.Or(*limit.value, limit.fallback)
	}
	for _, wait := range c.waits() {
		*wait.value = cmp.Or(*wait.value, wait.fallback)
	}
	return c
}

// setting is a field of a Config and its default.
type setting[T any] struct {
	value    *T
	fallback T
}

func (c *Config) limits() []setting[int] {
	return []setting[int]{
		{&c.AttemptsMax, 3}, {&c.AbandonedMax, 10}, {&c.AloneAfter, 2}, {&c.ServicesMax, 1000}, {&c.RefusalsMax, 10}, {&c.ConflictsMax, 3},
		{&c.SnapshotBytesMax, 256 << 10}, {&c.HistoryMax, 20}, {&c.RecentEventsMax, 50}, {&c.SendersMax, 50}, {&c.FailedEffectsMax, 10}, {&c.OutboxMax, 256},
	}
}

func (c *Config) waits() []setting[time.Duration] {
	return []setting[time.Duration]{
		{&c.RetentionMin, 14 * 24 * time.Hour}, {&c.DeniedWaitMax, time.Hour}, {&c.AcknowledgeAfter, time.Second}, {&c.AcknowledgeMax, 3 * time.Second}, {&c.DeadlineMargin, 2 * time.Second},
		{&c.TimerEarlyMax, 6 * time.Minute}, {&c.HeartbeatRetryMin, 10 * time.Second}, {&c.HeartbeatRetryMax, 15 * time.Minute},
		{&c.PollMin, 15 * time.Minute}, {&c.PollMax, 24 * time.Hour}, {&c.PostponeMin, time.Minute}, {&c.PostponeMax, time.Hour},
	}
}

func (c Config) validate() error {
	for _, limit := range c.limits() {
		if *limit.value < 1 {
			return fmt.Errorf("durable: expected positive limits in Config, got %+v", c)
		}
	}
	for _, wait := range append(c.waits(), setting[time.Duration]{value: &c.Backoff.Interval}, setting[time.Duration]{value: &c.Backoff.IntervalMax}) {
		if *wait.value < 0 {
			return fmt.Errorf("durable: expected no negative durations in Config, got %+v", c)
		}
	}
	return nil
}
