package sfncallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// ErrNotStatusChange is returned by Forward if a body is not Step Functions' status change event. A retry does not
// help: leave the message to the queue's redrive policy.
var ErrNotStatusChange = errors.New("not an EventBridge event of type Step Functions Execution Status Change")

// Forwarder sends EventBridge's "Step Functions Execution Status Change" events to the instances that started the
// executions. It is safe for concurrent use.
type Forwarder struct {
	client DescribeClient
	sender durable.Sender
	logger *slog.Logger
}

// NewForwarder returns a forwarder that sends through the sender.
func NewForwarder(client DescribeClient, sender durable.Sender, logger *slog.Logger) *Forwarder {
	return &Forwarder{client: client, sender: sender, logger: logger}
}

// statusChange is EventBridge's event (Step Functions Developer Guide, "Automating Step Functions event delivery with
// EventBridge").
type statusChange struct {
	DetailType string `json:"detail-type"`
	Detail     struct {
		ExecutionARN  string                     `json:"executionArn"`
		Name          string                     `json:"name"`
		Status        statechart.ExecutionStatus `json:"status"`
		Input         *string                    `json:"input"`
		InputDetails  *dataDetails               `json:"inputDetails"`
		Output        *string                    `json:"output"`
		OutputDetails *dataDetails               `json:"outputDetails"`
		Error         *string                    `json:"error"`
		Cause         *string                    `json:"cause"`
	} `json:"detail"`
}

// dataDetails says whether the event includes an input or an output. EventBridge omits long ones.
type dataDetails struct {
	Included bool `json:"included"`
}

// Forward handles one event: it reports the end of an execution to the instance that started it. It skips events of
// other executions, and of executions that are still running. If EventBridge omitted the input or the output, Forward
// calls DescribeExecution. Delete the message only after Forward succeeded. Errors wrap ErrNotStatusChange, or can be
// retried.
func (f *Forwarder) Forward(ctx context.Context, body string) error {
	var change statusChange
	if err := json.Unmarshal([]byte(body), &change); err != nil || change.DetailType != "Step Functions Execution Status Change" || change.Detail.ExecutionARN == "" {
		return fmt.Errorf("%w: expected the detail-type \"Step Functions Execution Status Change\" and a detail with executionArn, name and status, got %d bytes of something else", ErrNotStatusChange, len(body))
	}
	if !isEnd(change.Detail.Status) || !strings.HasPrefix(change.Detail.Name, instances.ExecutionPrefix) {
		return nil
	}
	end, input, err := f.complete(ctx, change)
	if errors.Is(err, durable.ErrNoExecution) {
		f.logger.WarnContext(ctx, "the execution that this event reports no longer exists", "execution", change.Detail.ExecutionARN, "error", err)
		return nil // The loop polls the execution, and then reports the end to the instance.
	}
	if err != nil {
		return err
	}
	message, ok, err := durable.ExecutionEnd([]byte(input), end)
	if err == nil && ok {
		_, err = f.sender.Send(ctx, message)
	}
	if err != nil {
		return fmt.Errorf("reporting the end of %s: %w", end.Execution, err)
	}
	return nil
}

// complete returns how the execution ended, and its input. It calls DescribeExecution for anything the event omits.
func (f *Forwarder) complete(ctx context.Context, change statusChange) (end statechart.ExecutionEnded, input string, err error) {
	d := change.Detail
	noInput := d.Input == nil || d.InputDetails != nil && !d.InputDetails.Included
	noOutput := d.Status == statechart.ExecutionSucceeded && (d.Output == nil || d.OutputDetails != nil && !d.OutputDetails.Included)
	noError := d.Status == statechart.ExecutionFailed && d.Error == nil
	if !noInput && !noOutput && !noError {
		return statechart.ExecutionEnded{
			Name: d.Name, Execution: d.ExecutionARN, Status: d.Status, Output: json.RawMessage(text(d.Output)), Error: text(d.Error), Cause: text(d.Cause),
		}, text(d.Input), nil
	}
	described, err := describe(ctx, f.client, d.ExecutionARN)
	if err != nil {
		return end, "", err
	}
	end, ended := endOf(described)
	if !ended {
		// DescribeExecution may lag behind the event, or the failed execution was redriven.
		return end, "", fmt.Errorf("the event says that the execution %s is %s, but DescribeExecution says %s", d.ExecutionARN, d.Status, described.Status)
	}
	return end, text(described.Input), nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
