package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/settle-run/settle/runtime/durable"
)

// Lead is how long before its time a schedule hands a message to the delay queue, which then brings
// it on time to the second: EventBridge Scheduler itself is late by up to a minute (EventBridge
// Scheduler User Guide, "Schedule types").
const Lead = 3 * time.Minute

// descriptionBytesMax is the longest description of a schedule.
const descriptionBytesMax = 512

// SchedulerClient is the part of the EventBridge Scheduler client that Timers use; *scheduler.Client
// has it.
type SchedulerClient interface {
	CreateSchedule(context.Context, *scheduler.CreateScheduleInput, ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error)
	DeleteSchedule(context.Context, *scheduler.DeleteScheduleInput, ...func(*scheduler.Options)) (*scheduler.DeleteScheduleOutput, error)
}

// SchedulerConfig says where schedules are made and what they may do.
type SchedulerConfig struct {
	// Group is the schedule group, which must exist. Defaults to "default", which every account has.
	Group string
	// QueueARN is the ARN of the delay queue. Required.
	QueueARN string
	// RoleARN is the role by which EventBridge Scheduler sends to the delay queue: it needs
	// sqs:SendMessage there. Required.
	RoleARN string
	// DeadLetterQueueARN is the ARN of a standard queue for what EventBridge Scheduler cannot bring to the delay
	// queue: the role needs sqs:SendMessage there too. A Forwarder takes what it puts there. Without one, such timers are lost.
	DeadLetterQueueARN string
	// Logger takes a line of level WARN for each timer that EventBridge Scheduler denies or refuses. Defaults to slog.Default().
	Logger *slog.Logger
}

// Timers implements durable.Timers: by the delay queue alone what one hop can bring, and the rest by
// EventBridge Scheduler, which costs nothing while it waits. What Scheduler denies or refuses travels in hops
// through the delay queue. It is safe for concurrent use.
type Timers struct {
	delays *DelayQueue
	client SchedulerClient
	config SchedulerConfig
}

var _ durable.Timers = (*Timers)(nil)

// NewTimers returns timers over the delay queue, whose messages a Forwarder must handle.
func NewTimers(delays *DelayQueue, client SchedulerClient, config SchedulerConfig) (*Timers, error) {
	if config.Group == "" {
		config.Group = "default"
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.QueueARN == "" || config.RoleARN == "" {
		return nil, fmt.Errorf("schedule: expected the ARNs of the delay queue and of a role that may send to it, got %q and %q", config.QueueARN, config.RoleARN)
	}
	return &Timers{delays: delays, client: client, config: config}, nil
}

// Schedule sees to it that the message is sent to the FIFO queue no earlier than at, and at once if at
// has passed. Scheduling again under the same DeduplicationID, with the same at, makes no second
// schedule. If EventBridge Scheduler denies or refuses a message, Schedule logs that and puts it into the delay queue, whose
// answer decides. Errors wrap durable.ErrRefused or durable.ErrDenied, or leave open whether it will be sent.
func (t *Timers) Schedule(ctx context.Context, at time.Time, message durable.Message) error {
	if at.Sub(t.delays.now()) <= HopMax {
		return t.delays.Schedule(ctx, at, message)
	}
	err := t.create(ctx, delay(ctx, at, message))
	if !errors.Is(err, durable.ErrDenied) && !errors.Is(err, durable.ErrRefused) {
		return err
	}
	t.config.Logger.WarnContext(ctx, "EventBridge Scheduler does not take a timer, the delay queue brings it in hops of 15 minutes",
		"instance", message.To.String(), "due", at, "error", err)
	if hopErr := t.delays.Schedule(ctx, at, message); hopErr != nil {
		// Only the delay queue's error decides whether a retry can help: Scheduler's is text.
		return fmt.Errorf("%w, after EventBridge Scheduler did not take it: %s", hopErr, err.Error())
	}
	return nil
}

// create makes the message's schedule, unless it exists.
func (t *Timers) create(ctx context.Context, message delayed) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("scheduling %s to %s: %w", message.DeduplicationID, message.To, err)
	}
	target := &types.Target{Arn: &t.config.QueueARN, RoleArn: &t.config.RoleARN, Input: aws.String(string(body))}
	if t.config.DeadLetterQueueARN != "" {
		target.DeadLetterConfig = &types.DeadLetterConfig{Arn: &t.config.DeadLetterQueueARN}
	}
	_, err = t.client.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name: aws.String(scheduleName(message.DeduplicationID)), GroupName: &t.config.Group,
		Description:           aws.String(description(message)),
		ScheduleExpression:    aws.String("at(" + message.At.Add(-Lead).UTC().Format("2006-01-02T15:04:05") + ")"),
		FlexibleTimeWindow:    &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		ActionAfterCompletion: types.ActionAfterCompletionDelete,
		Target:                target,
	})
	var exists *types.ConflictException
	if err == nil || errors.As(err, &exists) {
		return nil
	}
	return fmt.Errorf("scheduling %s to %s at %s: %w", message.DeduplicationID, message.To, message.At.Format(time.RFC3339), classify(err))
}

// Cancel deletes the schedule of a message, if there is one: a message that the delay queue has
// already comes all the same.
func (t *Timers) Cancel(ctx context.Context, deduplicationID string) error {
	_, err := t.client.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{
		Name: aws.String(scheduleName(deduplicationID)), GroupName: &t.config.Group,
	})
	var gone *types.ResourceNotFoundException
	if err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("cancelling %s: %w", deduplicationID, err)
	}
	return nil
}

// scheduleName makes a schedule's name of a deduplication ID: at most 64 letters, digits and a few
// more, which an ID has not always.
func scheduleName(deduplicationID string) string {
	hash := sha256.Sum256([]byte(deduplicationID))
	return hex.EncodeToString(hash[:])
}

// description says to people whose schedule it is.
func description(message delayed) string {
	text := "Settle: " + message.To + ", " + message.DeduplicationID
	return strings.ToValidUTF8(text[:min(len(text), descriptionBytesMax)], "")
}
