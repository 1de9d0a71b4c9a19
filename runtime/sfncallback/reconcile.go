package sfncallback

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// historyPage is the largest page of GetExecutionHistory, in events.
const historyPage = 1000

// undecidedError is returned if the history does not show how the task ended. GetExecutionHistory is eventually
// consistent (Step Functions API Reference), so an accepted answer may be missing for a while. If the producer's event
// names another execution, its history never shows the task.
type undecidedError struct{}

// Error names both causes.
func (undecidedError) Error() string {
	return "the execution's history does not show how the task ended: it lags, or the task's event names another execution"
}

// Is makes an undecidedError a durable.ErrDenied, so that the loop retries it for a limited time.
func (undecidedError) Is(target error) bool { return target == durable.ErrDenied }

// reconcile reads the execution's history to find out how the task ended. It returns nil if this answer ended the task,
// or if the history cannot decide.
func (c *Callback) reconcile(ctx context.Context, token instances.Token, answer instances.Answer) error {
	if token.Execution == "" {
		return nil
	}
	end, over, err := c.end(ctx, token)
	switch {
	case isUnknown(err):
		return nil // The history cannot decide. The execution comes from the producer's event and may be anything.
	case err != nil:
		return fmt.Errorf("looking up how the task %s ended: %w", token.Name, classify(err))
	case end == nil && over:
		return nil // The history cannot decide, because it does not show the token.
	case end == nil, !over && !endsTask(*end):
		return fmt.Errorf("looking up how the task %s ended: %w", token.Name, undecidedError{})
	}
	ours := answer.Error == "" && end.Type == types.HistoryEventTypeTaskSucceeded && sameJSON(aws.ToString(end.TaskSucceededEventDetails.Output), answer.Output) ||
		answer.Error != "" && end.Type == types.HistoryEventTypeTaskFailed && aws.ToString(end.TaskFailedEventDetails.Error) == answer.Error
	if ours {
		return nil
	}
	return fmt.Errorf("%w: its history ends with %s", durable.ErrExpired, end.Type)
}

// end returns the last event of the task that was scheduled with the token; nil if the history has no such task. `over`
// reports whether the execution is over, which means that the history's last event ends the execution. Earlier end
// events do not count, because a redrive appends to the history of a failed execution (Step Functions Developer Guide,
// "Restarting state machine executions with redrive"). end reads backwards, because the task is likely to be near the
// end.
func (c *Callback) end(ctx context.Context, token instances.Token) (last *types.HistoryEvent, over bool, err error) {
	after := make(map[int64]types.HistoryEvent) // by the ID of the previous event
	pages := sfn.NewGetExecutionHistoryPaginator(c.client, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &token.Execution, ReverseOrder: true, MaxResults: historyPage, IncludeExecutionData: aws.Bool(true),
	})
	for first := true; pages.HasMorePages(); first = false {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, false, err
		}
		over = over || first && len(page.Events) > 0 && endsExecution(page.Events[0])
		for _, event := range page.Events {
			scheduled := event.TaskScheduledEventDetails
			if scheduled == nil || !strings.Contains(aws.ToString(scheduled.Parameters), token.Value.Reveal()) {
				after[event.PreviousEventId] = event
				continue
			}
			for next, ok := after[event.Id]; ok && isOfTask(next); next, ok = after[event.Id] {
				event = next
			}
			return &event, over, nil
		}
	}
	return nil, over, nil
}

// isOfTask reports whether an event that follows a task's event belongs to the same task.
func isOfTask(event types.HistoryEvent) bool {
	switch event.Type {
	case types.HistoryEventTypeTaskStarted, types.HistoryEventTypeTaskSubmitted:
		return true
	default:
		return endsTask(event)
	}
}

// endsTask reports whether the task can no longer be answered after the event.
func endsTask(event types.HistoryEvent) bool {
	switch event.Type {
	case types.HistoryEventTypeTaskStartFailed, types.HistoryEventTypeTaskSubmitFailed, types.HistoryEventTypeTaskSucceeded,
		types.HistoryEventTypeTaskFailed, types.HistoryEventTypeTaskTimedOut, types.HistoryEventTypeTaskStateAborted:
		return true
	default:
		return false
	}
}

func endsExecution(event types.HistoryEvent) bool {
	switch event.Type {
	case types.HistoryEventTypeExecutionSucceeded, types.HistoryEventTypeExecutionFailed, types.HistoryEventTypeExecutionAborted,
		types.HistoryEventTypeExecutionTimedOut:
		return true
	default:
		return false
	}
}

// sameJSON reports whether two texts are the same JSON. The stored answer may have its keys in another order.
func sameJSON(a string, b []byte) bool {
	var left, right any
	return json.Unmarshal([]byte(a), &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}
