package states

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/document"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// announcedBytesMax is how long an escaped input and output may be in an event, both together and the
// output alone; beyond it the input is left out, or the output: "Automating Step Functions event delivery with
// EventBridge" of the AWS Step Functions Developer Guide.
const announcedBytesMax = 248 << 10

// StatusChange is what Step Functions tells EventBridge: an execution has begun, or come to its end.
type StatusChange struct {
	// Execution is its ARN, Name its name.
	Execution, Name string
	// Status is that which it has now.
	Status string
	// Event is EventBridge's event.
	Event json.RawMessage
}

// TakeStatusChanges returns the changes of executions' statuses since it was last called, in their order,
// and forgets them. They are no part of what is kept: the caller takes them within the change that they
// come of.
func (m *Model) TakeStatusChanges() []StatusChange {
	changes := m.changes
	m.changes = nil
	return changes
}

// Announce makes the model note from now on what becomes of executions.
func (m *Model) Announce() { m.announces = true }

// announce notes that an execution has another status.
func (m *Model) announce(x *execution, now time.Time) {
	if !m.announces {
		return
	}
	detail := map[string]any{
		"executionArn": x.ARN, "stateMachineArn": x.machine.arn(), "name": x.Name, "status": x.Status,
		"startDate": number(int(x.Started.UnixMilli())), "stopDate": nil,
		"input": x.Input.text, "inputDetails": map[string]any{"included": true}, "output": nil, "outputDetails": nil,
		"error": nil, "cause": nil, "stateMachineVersionArn": nil, "stateMachineAliasArn": nil,
	}
	if x.Status != running {
		detail["stopDate"] = number(int(x.Stopped.UnixMilli()))
	}
	output := 0
	if x.Output != nil {
		output = len(document.Encode(x.Output.text))
		detail["output"], detail["outputDetails"] = x.Output.text, map[string]any{"included": true}
	}
	if len(document.Encode(x.Input.text))+output > announcedBytesMax {
		detail["input"], detail["inputDetails"] = nil, map[string]any{"included": false}
	}
	if output > announcedBytesMax {
		detail["output"], detail["outputDetails"] = nil, map[string]any{"included": false}
	}
	if x.Failure != nil {
		for name, value := range failureDetails(x.Failure) {
			detail[name] = value
		}
	}
	event := document.Encode(map[string]any{
		"version": "0", "id": uuid("status "+x.Status, x.serial), "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
		"account": wire.Account, "time": now.UTC().Format("2006-01-02T15:04:05Z"), "region": wire.Region,
		"resources": []any{x.ARN}, "detail": detail,
	})
	m.changes = append(m.changes, StatusChange{Execution: x.ARN, Name: x.Name, Status: x.Status, Event: json.RawMessage(event)})
}
