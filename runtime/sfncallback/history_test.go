package sfncallback_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sfncallback"
)

// answered is a Step Functions client whose task is over. The test chooses the history.
type answered struct {
	sfncallback.Client
	history []types.HistoryEventType
}

func (a answered) SendTaskSuccess(context.Context, *sfn.SendTaskSuccessInput, ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	return nil, &types.TaskTimedOut{}
}

// GetExecutionHistory returns the events in reverse order. Each event names the one before it as its cause.
func (a answered) GetExecutionHistory(context.Context, *sfn.GetExecutionHistoryInput, ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error) {
	var events []types.HistoryEvent
	for i, kind := range a.history {
		event := types.HistoryEvent{Id: int64(i + 1), PreviousEventId: int64(i), Type: kind}
		switch kind {
		case types.HistoryEventTypeTaskScheduled:
			event.TaskScheduledEventDetails = &types.TaskScheduledEventDetails{Parameters: aws.String(`{"token":"TOKEN"}`)}
		case types.HistoryEventTypeTaskSucceeded:
			event.TaskSucceededEventDetails = &types.TaskSucceededEventDetails{Output: aws.String(string(success.Output))}
		}
		events = append([]types.HistoryEvent{event}, events...)
	}
	return &sfn.GetExecutionHistoryOutput{Events: events}, nil
}

// TestAHistoryThatLagsDecidesNothing answers a task that is over. Answer may decide how the task ended only by an event
// that ends the task or the execution.
func TestAHistoryThatLagsDecidesNothing(t *testing.T) {
	t.Parallel()
	const (
		entered   = types.HistoryEventTypeTaskStateEntered
		scheduled = types.HistoryEventTypeTaskScheduled
		submitted = types.HistoryEventTypeTaskSubmitted
	)
	for name, c := range map[string]struct {
		history []types.HistoryEventType
		expired bool
		open    bool // the next delivery retries the answer, for a limited time
	}{
		"the task is not shown":                {history: []types.HistoryEventType{entered}, open: true},
		"its end is not shown":                 {history: []types.HistoryEventType{entered, scheduled, types.HistoryEventTypeTaskStarted, submitted}, open: true},
		"our answer is shown":                  {history: []types.HistoryEventType{entered, scheduled, submitted, types.HistoryEventTypeTaskSucceeded}},
		"it timed out":                         {history: []types.HistoryEventType{entered, scheduled, submitted, types.HistoryEventTypeTaskTimedOut}, expired: true},
		"another branch ended it":              {history: []types.HistoryEventType{entered, scheduled, submitted, types.HistoryEventTypeTaskStateAborted}, expired: true},
		"the execution ended before the task":  {history: []types.HistoryEventType{entered, scheduled, submitted, types.HistoryEventTypeExecutionAborted}, expired: true},
		"no such task yet, execution redriven": {history: []types.HistoryEventType{entered, types.HistoryEventTypeExecutionFailed, types.HistoryEventTypeExecutionRedriven}, open: true},
		"no such task, execution over":         {history: []types.HistoryEventType{entered, types.HistoryEventTypeExecutionSucceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := instances.Token{Name: "Wait", Value: "TOKEN", Execution: "arn:aws:states:us-east-1:000000000000:execution:m:e"}
			err := sfncallback.New(answered{history: c.history}).Answer(t.Context(), token, success, false)
			if expired := errors.Is(err, durable.ErrExpired); expired != c.expired || !expired && (err != nil) != c.open || errors.Is(err, durable.ErrDenied) != c.open {
				t.Errorf("want expired %v, open %v, got %v", c.expired, c.open, err)
			}
		})
	}
}
