package statelesshost_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// epoch is the time at which the instances of the tests start.
var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// effectLine formats an effect as one line.
func effectLine(e statechart.Effect) string {
	line := e.ID + " " + string(e.Kind)
	if e.Name != "" {
		line += " " + e.Name
	}
	switch e.Kind {
	case statechart.Schedule:
		return line + " " + e.At.Format("15:04:05")
	case statechart.Send:
		return line + " to " + e.To + " " + string(e.Event)
	case statechart.EmitEvent:
		return line + " " + string(e.Event)
	case statechart.ResolveWaits:
		if e.Error != "" {
			return fmt.Sprintf("%s error=%s cause=%s state=%v tags=%v", line, e.Error, e.Message, e.State, e.Tags)
		}
		if e.Output != nil {
			line += " " + string(e.Output)
		}
		return fmt.Sprintf("%s outcome=%s state=%v tags=%v", line, e.Outcome, e.State, e.Tags)
	default:
		return line + " " + e.Message
	}
}

func effectLines(effects []statechart.Effect) string {
	var lines []string
	for _, e := range effects {
		lines = append(lines, effectLine(e))
	}
	return strings.Join(lines, "\n")
}

// outputOf returns the output in the JSON form of a snapshot.
func outputOf(snapshot string) string {
	var form struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal([]byte(snapshot), &form); err != nil {
		return err.Error()
	}
	return string(form.Output)
}

// live is the current value of an instance, which apply replaces.
type live struct{ durable.Instance }

func start(t *testing.T, machine durable.Machine) *live {
	t.Helper()
	instance, effects, err := machine.Start(statechart.Start{Instance: machine.ID() + "/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if len(effects) > 0 {
		t.Fatalf("got effects of the start: %s", effectLines(effects))
	}
	return &live{instance}
}

// apply applies an event at the epoch. The instance must handle it.
func apply(t *testing.T, instance *live, event statechart.Event) []statechart.Effect {
	t.Helper()
	if event.At.IsZero() {
		event.At = epoch
	}
	next, effects, handled, err := instance.Apply(event)
	instance.Instance = next
	if err != nil || !handled {
		t.Fatalf("%s %v in %v: handled %v, error %v", event.Type, event.Payload, instance.State(), handled, err)
	}
	return effects
}

func snapshotOf(t *testing.T, instance durable.Instance) string {
	t.Helper()
	text, err := instance.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
