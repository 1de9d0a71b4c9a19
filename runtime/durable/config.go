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
	// Logger logs transitions, failures, and the messages of charts (statechart.Log). Defaults to slog.Default.
	// Transitions have level DEBUG if Observer.Applied is set.
	Logger *slog.Logger
	// Observer receives the events of the loop for logs, metrics and traces. By default, nothing is called.
	Observer Observer
	// Emit receives the events that instances emit (statechart.Emit), in order and at least once, after their commit.
	// A repeat has the same ID. The loop retries an error or a panic, and the instance receives no event until Emit
	// succeeds. To avoid blocking the instance, log the error and return nil. If Emit is nil, emitted events are
	// dropped and cost no write.
	Emit func(ctx context.Context, from InstanceID, id string, event json.RawMessage) error
	// AttemptsMax is how often an event is tried before it is parked because the chart's code fails. Defaults to 3.
	AttemptsMax int
	// AbandonedMax is how often the process may die while an event is tried. Then the event is parked. Defaults to 10.
	AbandonedMax int
	// ServicesMax is how many services may begin for each event until the instance is settled. Retries do not count.
	// The loop reports further services to the chart as failed. After RefusalsMax such failures, the instance counts
	// as unable to settle. Defaults to 1000, an hour of calls every four seconds.
	ServicesMax int
	// RetentionMin is the shortest MachineConfig.Retention that New accepts: the queue's MessageRetentionPeriod. A
	// message that outlives its instance would start a new one. Defaults to 14 days, the SQS maximum.
	RetentionMin time.Duration
	// DeniedWaitMax is how long the loop retries an effect after AWS first denied it (ErrDenied). The instance receives
	// no event meanwhile. Then the effect becomes a FailedEffect. Defaults to one hour.
	DeniedWaitMax time.Duration
	// Backoff is the wait before a failed delivery is retried. Defaults to one second, doubled up to five minutes.
	// Its Attempts is not used.
	Backoff statechart.RetryPolicy
	// AcknowledgeAfter is how old a batch is when Ports.Acknowledger first deletes deliveries. Defaults to one second.
	AcknowledgeAfter time.Duration
	// ConflictsMax is how often a turn starts again at once after a conflict with another writer. Defaults to 3.
	ConflictsMax int
	// DeadlineMargin is the time before the context's deadline that the loop keeps for itself. Services must end
	// before it. Defaults to two seconds.
	DeadlineMargin time.Duration
	// SnapshotBytesMax limits the JSON of a snapshot. Defaults to 256 KiB, because an item has at most 400 KB.
	SnapshotBytesMax int
	// HistoryMax is how many transitions an instance remembers. Defaults to 20.
	HistoryMax int
	// RecentEventsMax is how many producers' event IDs an instance remembers. Defaults to 50.
	RecentEventsMax int
	// SendersMax is how many senders an instance remembers in its item, for each queue. Defaults to 50.
	SendersMax int
	// FailedEffectsMax is how many failed effects an instance keeps, besides those that its chart has yet to receive.
	// Defaults to 10.
	FailedEffectsMax int
	// OutboxMax is how many effects a turn collects before it stores and performs them. Defaults to 256.
	OutboxMax int
	// RefusalsMax is how many failures due to ServicesMax a chart may handle, for example to clean up. Defaults to 10.
	RefusalsMax int
	// AloneAfter is how often the process may die while an event is tried before the event runs alone. Defaults to 2.
	AloneAfter int
	// PollMin and PollMax bound the wait between two polls of an execution, which doubles. Default to 15 minutes and a day.
	PollMin, PollMax time.Duration
}

const (
	// timerEarlyMax is how early a timer may fire because two clocks differ. The loop did not send an earlier firing.
	// Such a firing must not lock its group until the timer is due. It is longer than the five minutes in which SQS
	// drops the next firing as a duplicate of this one (SQS Developer Guide, "Exactly-once processing in Amazon SQS").
	timerEarlyMax = 6 * time.Minute
	// heartbeatRetryMin and heartbeatRetryMax are the waits before a failed heartbeat is retried. The wait doubles.
	heartbeatRetryMin, heartbeatRetryMax = 10 * time.Second, 15 * time.Minute
	// postponeMin and postponeMax are the waits before a message of the runtime that cannot be applied is delivered
	// again. The wait doubles.
	postponeMin, postponeMax = time.Minute, time.Hour
	// acknowledgeMax is how long an early acknowledgement may take.
	acknowledgeMax = 3 * time.Second
)

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
		{&c.RetentionMin, 14 * 24 * time.Hour}, {&c.DeniedWaitMax, time.Hour}, {&c.AcknowledgeAfter, time.Second}, {&c.DeadlineMargin, 2 * time.Second},
		{&c.PollMin, 15 * time.Minute}, {&c.PollMax, 24 * time.Hour},
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
