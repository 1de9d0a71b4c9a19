package durable

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes a Loop. The zero value is useful.
type Config struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Logger receives a line for each transition, each failure and each message that a chart logs (statechart.Log).
	// Transitions have level DEBUG if Observer.Applied or Observer.Committed is set. Defaults to slog.Default.
	Logger *slog.Logger
	// Observer receives the events of the loop for logs, metrics and traces. The default calls nothing.
	Observer Observer
	// Emit publishes the events that an instance emits (statechart.Emit), at least once, after the commit that contains
	// them. It receives one to ten effects at a time, in order. Their IDs are globally unique, and a repeat has the
	// same ID. Emit returns an error or nil for each effect (see ErrRefused). A nil Emit drops all events.
	Emit func(ctx context.Context, from instances.ID, events []statechart.Effect) []error
	// AttemptsMax is how often the loop tries an event on which the chart's own code fails. Then the event is parked.
	// Defaults to 3. A service has its own RetryPolicy.
	AttemptsMax int
	// AbandonedMax is how often the process may die while it tries an event. Then the event is parked. Failures of AWS do
	// not count. Defaults to 10.
	AbandonedMax int
	// ServicesMax is how many services may begin for each event until the instance is settled. Retries do not count.
	// The loop does not call further services and reports them to the chart as failed. After RefusalsMax such
	// failures, the instance counts as unable to settle. Each service costs a write, so ServicesMax bounds the cost of a
	// chart whose services invoke each other in an endless loop. Defaults to 1000: a call every four seconds for an hour.
	// A chart that polls for longer should wait in a settled state (After).
	ServicesMax int
	// RetentionMin is the shortest MachineConfig.Retention that New accepts. Set it to the queue's
	// MessageRetentionPeriod: a message that arrives after its instance was deleted would start a new instance.
	// Defaults to 14 days, the SQS maximum.
	RetentionMin time.Duration
	// ReceivesMax is the queue's maxReceiveCount. If it is below the default, 1000, SQS may move an event to the
	// dead-letter queue before its effects are performed. So each event with effects then costs a second write.
	ReceivesMax int
	// Lanes maps each lane except instances.MainLane to the ARN of its FIFO queue. All other queues are the main lane.
	Lanes map[string]string
	// SettlerWaitMax is how long an event waits for another queue's event to settle the instance, counted from the last
	// write. Defaults to 15 minutes, Lambda's longest timeout.
	SettlerWaitMax time.Duration
	// DeniedWaitMax is how long the loop retries an effect that AWS denies because a permission or a resource is missing
	// (ErrDenied). It counts from the first denial. The instance receives no event meanwhile. Then the effect becomes a
	// FailedEffect. Messages that start or stop a child, or report its end, are retried until AWS permits them. Defaults
	// to one hour. Set it longer than the read lag of Step Functions: an answer to a task counts as denied until the
	// execution's history shows how the task ended.
	DeniedWaitMax time.Duration
	// Backoff is the wait before a delivery is retried: by default, 1 second, doubled up to 5 minutes. Attempts is unused.
	Backoff statechart.RetryPolicy
	// SlowAfter is the batch age at which the loop acknowledges finished groups and takes a lease. Defaults to 1 second.
	SlowAfter time.Duration
	// Lease is how long the queue hides a slow batch. The loop extends the lease every Lease/3. Defaults to 30 seconds.
	Lease time.Duration
	// ConflictsMax is how many times a turn starts again immediately after a conflict with another writer. Defaults to 3.
	ConflictsMax int
	// DeadlineMargin is how long before the context's deadline the loop ends the services. Defaults to two seconds.
	DeadlineMargin time.Duration
	// SnapshotBytesMax limits the JSON of a snapshot. Defaults to 256 KiB. An item has room for 400 KB.
	SnapshotBytesMax int
	// HistoryMax is how many transitions an instance remembers. Defaults to 20.
	HistoryMax int
	// RecentEventsMax is how many events an instance remembers, including sends from other instances. It remembers them
	// by ID, and some events without an ID by their place in the queue. Defaults to 50.
	RecentEventsMax int
	// SendersMax is how many senders of a queue an instance remembers in its item, each with its last event. Further
	// senders are stored as items of their own. Defaults to 50.
	SendersMax int
	// FailedEffectsMax is how many failed effects an instance keeps, besides those not yet reported. Defaults to 10.
	FailedEffectsMax int
	// OutboxMax is how many effects a turn collects before it stores and performs them. Defaults to 256.
	OutboxMax int
	// RefusalsMax is how many services beyond ServicesMax are reported to the chart as failed before the instance
	// counts as unable to settle. The reports let each parallel region settle, or try once to clean up. Defaults to 10.
	RefusalsMax int
	// AloneAfter is how often the process may die while it tries an event. Then the event runs alone: after the rest of
	// its batch, or before the rest at every eighth receive. Defaults to 2.
	AloneAfter int
	// TimerEarlyMax is how early a timer may fire because two clocks differ. The group then waits until the timer is due.
	// If a firing is even earlier, the loop skips it and schedules the timer again, so that the group stays unlocked.
	// Defaults to 6 minutes.
	TimerEarlyMax time.Duration
	// HeartbeatRetryMin and HeartbeatRetryMax bound the wait before a failed heartbeat is retried. The wait doubles. They
	// default to 10 seconds and 15 minutes.
	HeartbeatRetryMin, HeartbeatRetryMax time.Duration
	// PollMin and PollMax bound the wait between two polls of an execution. The wait doubles. They default to 15 minutes
	// and a day.
	PollMin, PollMax time.Duration
	// PostponeMin and PostponeMax bound the wait before the next delivery of a runtime message that cannot be applied. The
	// wait doubles. They default to one minute and one hour.
	PostponeMin, PostponeMax time.Duration
	// HopsMax limits the messages between instances that follow a timer or an event from outside. Defaults to 1000.
	HopsMax int
	// AcknowledgeMax is how long an early acknowledgement or an extension of the lease may take. Defaults to 3 seconds.
	AcknowledgeMax time.Duration
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // This default is the only use of the real clock.
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
		{&c.SnapshotBytesMax, instances.SnapshotBytesMax}, {&c.HistoryMax, 20}, {&c.RecentEventsMax, 50}, {&c.SendersMax, 50}, {&c.FailedEffectsMax, 10}, {&c.OutboxMax, 256}, {&c.HopsMax, 1000},
		{&c.ReceivesMax, receivesMax},
	}
}

func (c *Config) waits() []setting[time.Duration] {
	return []setting[time.Duration]{
		{&c.RetentionMin, 14 * 24 * time.Hour}, {&c.SettlerWaitMax, 15 * time.Minute}, {&c.DeniedWaitMax, time.Hour}, {&c.SlowAfter, time.Second}, {&c.Lease, 30 * time.Second}, {&c.AcknowledgeMax, 3 * time.Second}, {&c.DeadlineMargin, 2 * time.Second},
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
