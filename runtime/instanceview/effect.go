package instanceview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// EffectText describes what the runtime does for an effect, in a few words. It never contains a task token.
func EffectText(effect statechart.Effect) string {
	switch effect.Kind {
	case statechart.Schedule:
		return fmt.Sprintf("schedule the timer %s at %s", effect.Timer, effect.At.Format(time.RFC3339))
	case statechart.Send:
		var event struct{ Type string }
		_ = json.Unmarshal(effect.Event, &event) // The chart created the event, so it is valid JSON.
		if effect.Child != "" {
			return fmt.Sprintf("send %s to the child %s", event.Type, effect.Child)
		}
		return fmt.Sprintf("send %s to %s", event.Type, effect.To)
	case statechart.SpawnInstance:
		return fmt.Sprintf("start the child %s of machine %s", effect.Child, effect.Machine)
	case statechart.StopInstance:
		return fmt.Sprintf("stop the child %s of machine %s", effect.Child, effect.Machine)
	case statechart.ClaimAlias:
		return "claim the alias " + effect.Name
	case statechart.ReleaseAlias:
		return "release the alias " + effect.Name
	case statechart.StartExecution:
		return "start the workflow " + effect.Name
	case statechart.EmitEvent:
		return "emit an event"
	case statechart.LogMessage:
		return "log a message"
	case statechart.ParkEvent:
		return "park a deferred event: " + effect.Message
	default:
		if strings.HasPrefix(string(effect.Kind), "end") {
			return "notify the parent"
		}
		return string(effect.Kind)
	}
}

// OwedBy returns the effects that a change adds to the outbox of a record, and the names of the tasks that the change
// answers. A consumer performs the effects and answers the tasks.
func OwedBy(before, after instances.Record) (effects []statechart.Effect, tasks []string) {
	for _, effect := range after.Outbox {
		if !slices.ContainsFunc(before.Outbox, func(other statechart.Effect) bool { return other.ID == effect.ID }) {
			effects = append(effects, effect)
		}
	}
	for _, token := range after.Tokens {
		if token.Answer != nil && slices.ContainsFunc(before.Tokens, func(other instances.Token) bool { return other.Key == token.Key && other.Answer == nil }) {
			tasks = append(tasks, token.Name)
		}
	}
	return effects, tasks
}
