package instances

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
)

// ExecutionPrefix is the prefix of the names of all executions of instances.
const ExecutionPrefix = "settle-"

// Execution is a workflow execution that an instance waits for.
type Execution struct {
	// Name is the name of the execution. It derives from the effect, so a repeated start has the same name.
	Name string `json:"name"`
	// Workflow is the chart's name for the workflow.
	Workflow string `json:"workflow"`
	// Event is the type of the event that reports the end to the chart.
	Event     string    `json:"event"`
	StartedAt time.Time `json:"started_at"` // when the chart requested the execution
	// ARN is the execution's ARN, empty until durable.Executions.Start has returned it.
	ARN string `json:"arn,omitempty"`
	// Refused is set if the execution cannot be started. If ARN is set too, an earlier call may have started it.
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is the reason why an execution can never be started.
type Refusal struct {
	Error string `json:"error"`
	Cause string `json:"cause,omitempty"`
}

// Secret is a text that no log, error or front end shows. All formatting prints "[secret]". Only its JSON form, which
// is stored, contains the text.
type Secret string

// String returns "[secret]".
func (Secret) String() string { return "[secret]" }

// LogValue returns "[secret]".
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// Format writes "[secret]".
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }

// Reveal returns the text itself, for the call that needs it.
func (s Secret) Reveal() string { return string(s) }

// Token is a Step Functions task that waits for an instance. The instance holds its task token under a name.
type Token struct {
	// Key is a hash of Value. It distinguishes the token from all others of the instance.
	Key   string `json:"key"`
	Value Secret `json:"value"`
	// Name is the name under which the chart answers. Defaults to the name of the task's state.
	Name string `json:"name"`
	// Execution is the ARN of the execution, empty if the task did not provide it.
	Execution string `json:"execution,omitempty"`
	// EnteredAt is when the execution entered the task's state. Defaults to the time when the task's event was sent.
	EnteredAt time.Time `json:"entered_at"`
	// TimeoutSeconds and HeartbeatSeconds are the settings of the task's state; zero means none.
	TimeoutSeconds   int `json:"timeout_seconds,omitempty"`
	HeartbeatSeconds int `json:"heartbeat_seconds,omitempty"`
	// Answer is the answer to the task, nil while the task has to wait. The loop stores an answer before it sends the
	// answer to Step Functions.
	Answer *Answer `json:"answer,omitempty"`
	// Expired says that the task no longer waits, and that the chart has not received the message about this yet.
	Expired bool `json:"expired,omitempty"`
}

// LogValue returns the token's name and key.
func (k Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", k.Name), slog.String("key", k.Key))
}

// Answer ends the wait of a task: with Output or, if Error is set, with a failure.
type Answer struct {
	// Output is the JSON object {"outcome", "state", "tags", "output"}.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}
