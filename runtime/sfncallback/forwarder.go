package sfncallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// ErrNotStatusChange is returned by Forward when a body is not an event of Step Functions' own. Trying again
// does not help: leave the message to the queue's redrive policy.
var ErrNotStatusChange = errors.New("not EventBridge's event of an execution's status")

// Forwarder brings EventBridge's events "Step Functions Execution Status Change" to the instances that have started
// the executions. It is safe for concurrent use.
type Forwarder struct {
	client DescribeClient
	sender durable.Sender
	logger *slog.Logger
}

// NewForwarder returns a forwarder to the sender's FIFO queue.
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

// dataDetails says whether an input or an output is in an event: one that is too long is not.
type dataDetails struct {
	Included bool `json:"included"`
}

// Forward handles one event: it tells the instance that has started the execution how that has ended. An event of
// another execution, or of one that still runs, is passed over. What EventBridge has left out, it asks Step Functions
// for. The message may be deleted only after that has succeeded. Errors wrap ErrNotStatusChange, or leave open whether it has.
func (f *Forwarder) Forward(ctx context.Context, body string) error {
	var change statusChange
	if err := json.Unmarshal([]byte(body), &change); err != nil || change.DetailType != "Step Functions Execution Status Change" || change.Detail.ExecutionARN == "" {
		return fmt.Errorf("%w: expected the detail-type \"Step Functions Execution Status Change\" and a detail with executionArn, name and status, got %d bytes that are not", ErrNotStatusChange, len(body))
	}
	if !isEnd(change.Detail.Status) || !strings.HasPrefix(change.Detail.Name, durable.ExecutionPrefix) {
		return nil
	}
	end, input, err := f.complete(ctx, change)
	if errors.Is(err, durable.ErrNoExecution) {
		f.logger.WarnContext(ctx, "the end of an execution is told that nobody knows any more", "execution", change.Detail.ExecutionARN, "error", err)
		return nil // Its instance hears of it when it looks after it.
	}
	if err != nil {
		return err
	}
	origin := originOf(input)
	if origin.Execution != end.Name {
		return nil // Somebody else has started it, perhaps with a copy of an input.
	}
	message, err := durable.Ended(origin, end)
	if err == nil {
		_, err = f.sender.Send(ctx, message)
	}
	if err != nil {
		return fmt.Errorf("telling %q of the end of %s: %w", origin.Instance, end.Execution, err)
	}
	return nil
}

// originOf returns whose execution it is that has the input, zero if no instance's.
func originOf(input string) (origin durable.Origin) {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(input), &keys) != nil || json.Unmarshal(keys[statechart.WorkflowKey], &origin) != nil {
		return durable.Origin{}
	}
	return origin
}

// complete returns the end of the execution, and its input, with what the event does not have.
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
		// Reads of Step Functions lag behind; or somebody has had the execution go on after it had failed.
		return end, "", fmt.Errorf("the execution %s is said to be %s, and described as %s", d.ExecutionARN, d.Status, described.Status)
	}
	return end, text(described.Input), nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
