package states

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// announcedBytesMax limits the escaped input and output in an event. If both together are longer, the event omits the
// input. If the output alone is longer, the event omits the output too (AWS Step Functions Developer Guide, "Automating
// Step Functions event delivery with EventBridge").
const announcedBytesMax = 248 << 10

// StatusChange is what Step Functions reports to EventBridge when an execution starts or ends.
type StatusChange struct {
	// Execution is the ARN of the execution. Name is its name.
	Execution, Name string
	// Status is the new status.
	Status string
	// Event is EventBridge's event.
	Event json.RawMessage
}

// TakeStatusChanges returns the status changes since the last call, in order, and removes them. TakeRecords does not
// include them, so the caller must take them within the change that caused them.
func (m *Model) TakeStatusChanges() []StatusChange {
	changes := m.changes
	m.changes = nil
	return changes
}

// Announce starts recording status changes.
func (m *Model) Announce() { m.announces = true }

// announce records a status change of an execution.
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
