package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/plainjson"
)

// Lead is the head start of a schedule: it sends its message to the delay queue this long before the message is due. The
// delay queue is precise to the second, but EventBridge Scheduler may be late by up to a minute (EventBridge Scheduler
// User Guide, "Schedule types").
const Lead = 3 * time.Minute

// descriptionBytesMax is Scheduler's limit for a description.
const descriptionBytesMax = 512

// SchedulerClient is the part of the EventBridge Scheduler client that Timers use. *scheduler.Client implements it.
type SchedulerClient interface {
	CreateSchedule(context.Context, *scheduler.CreateScheduleInput, ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error)
	DeleteSchedule(context.Context, *scheduler.DeleteScheduleInput, ...func(*scheduler.Options)) (*scheduler.DeleteScheduleOutput, error)
}

// SchedulerConfig configures the schedules that Timers create.
type SchedulerConfig struct {
	// Group is the schedule group, which must exist. Defaults to "default", which every account has.
	Group string
	// QueueARN is the ARN of the delay queue. Required.
	QueueARN string
	// RoleARN is the role that EventBridge Scheduler assumes to send to the delay queue. It needs sqs:SendMessage
	// there. Required.
	RoleARN string
	// DeadLetterQueueARN is the ARN of a standard queue for timers that EventBridge Scheduler cannot deliver to the
	// delay queue. The role needs sqs:SendMessage there too. A Forwarder can handle its messages. Without it, such
	// timers are lost.
	DeadLetterQueueARN string
	// Logger logs a WARN line for each timer that EventBridge Scheduler denies or refuses. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Timers implements durable.Timers. It sends a message that is due within HopMax to the delay queue. For a later
// message, it creates a schedule in EventBridge Scheduler, which costs nothing while it waits. A message that Scheduler
// denies or refuses travels in hops through the delay queue. Timers is safe for concurrent use.
type Timers struct {
	delays *DelayQueue
	client SchedulerClient
	config SchedulerConfig
}

var _ durable.Timers = (*Timers)(nil)

// NewTimers returns timers over the delay queue. A Forwarder must handle the delay queue's messages.
func NewTimers(delays *DelayQueue, client SchedulerClient, config SchedulerConfig) (*Timers, error) {
	if config.Group == "" {
		config.Group = "default"
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.QueueARN == "" || config.RoleARN == "" {
		return nil, fmt.Errorf("schedule: expected the ARNs of the delay queue and of a role with permission to send to it, got %q and %q", config.QueueARN, config.RoleARN)
	}
	return &Timers{delays: delays, client: client, config: config}, nil
}

// Schedule ensures that the message is sent to the FIFO queue, no earlier than `at`. If `at` has passed, the message is
// sent immediately. A second call with the same DeduplicationID and time creates no second schedule. If EventBridge
// Scheduler denies or refuses a message, Schedule logs a warning and sends the message to the delay queue. The response
// of the delay queue then decides whether Schedule succeeds. Errors wrap durable.ErrRefused or durable.ErrDenied. After
// any other error, the message may or may not be sent.
func (t *Timers) Schedule(ctx context.Context, at time.Time, message durable.Message) error {
	if at.Sub(t.delays.now()) <= HopMax {
		return t.delays.Schedule(ctx, at, message)
	}
	err := t.create(ctx, delay(ctx, at, message))
	if !errors.Is(err, durable.ErrDenied) && !errors.Is(err, durable.ErrRefused) {
		return err
	}
	t.config.Logger.WarnContext(ctx, "EventBridge Scheduler did not accept a timer: it travels through the delay queue in hops of 15 minutes",
		"instance", message.To.String(), "due", at, "error", err)
	if hopErr := t.delays.Schedule(ctx, at, message); hopErr != nil {
		// Only the delay queue's error decides whether a retry can help, so Scheduler's error is only text here.
		return fmt.Errorf("%w, after EventBridge Scheduler did not accept it: %s", hopErr, err.Error())
	}
	return nil
}

// create creates the message's schedule. A schedule that exists already counts as created.
func (t *Timers) create(ctx context.Context, message delayed) error {
	body, err := plainjson.Marshal(message)
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

// Cancel deletes the schedule of a message, if one exists. If the message is in the delay queue already, it still
// arrives.
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

// scheduleName derives a schedule's name from a deduplication ID. Names have at most 64 characters, from a smaller
// alphabet than IDs.
func scheduleName(deduplicationID string) string {
	hash := sha256.Sum256([]byte(deduplicationID))
	return hex.EncodeToString(hash[:])
}

// description shows in the console which instance and timer the schedule belongs to.
func description(message delayed) string {
	text := "Settle: " + message.To + ", " + message.DeduplicationID
	return strings.ToValidUTF8(text[:min(len(text), descriptionBytesMax)], "")
}
