package inspector

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// protocolVersion is the version of @statelyai/inspect whose messages these are.
const protocolVersion = "0.7.2"

// The types of messages.
const (
	actorMessage    = "@xstate.actor"
	eventMessage    = "@xstate.event"
	snapshotMessage = "@xstate.snapshot"
)

// message is a StatelyInspectionEvent of @statelyai/inspect.
type message struct {
	Type string `json:"type"`
	// SessionID is the name of the instance. RootID is the name of its oldest ancestor.
	SessionID string `json:"sessionId"`
	RootID    string `json:"rootId"`
	ID        string `json:"id"`
	// CreatedAt is in milliseconds since 1970.
	CreatedAt string `json:"createdAt"`
	Version   string `json:"_version"`

	// An actor has Name, Definition and Snapshot, and a child has ParentID. Definition is a machine config as JSON text.
	Name       string `json:"name,omitempty"`
	Definition string `json:"definition,omitempty"`
	ParentID   string `json:"parentId,omitempty"`
	// An event has Event, and SourceID if the sender is known. A snapshot has Snapshot and the Event that led to it.
	Event    json.RawMessage `json:"event,omitempty"`
	SourceID string          `json:"sourceId,omitempty"`
	Snapshot *snapshot       `json:"snapshot,omitempty"`
}

// snapshot has the form of a snapshot of XState.
type snapshot struct {
	Status   statechart.Status     `json:"status"`
	Value    json.RawMessage       `json:"value"`
	Context  json.RawMessage       `json:"context"`
	Output   json.RawMessage       `json:"output,omitempty"`
	Tags     []string              `json:"tags"`
	Children map[string]childActor `json:"children"`
}

// childActor is the JSON of an ActorRef of XState.
type childActor struct {
	Kind int    `json:"xstate$$type"`
	ID   string `json:"id"`
}

// actorKind is the kind of ActorRef in XState.
const actorKind = 1

func snapshotOf(view instanceview.Instance) *snapshot {
	s := &snapshot{Status: view.Status, Value: view.Value, Context: view.Context, Output: view.Output, Tags: view.Tags, Children: map[string]childActor{}}
	for id, child := range view.Children {
		s.Children[id] = childActor{actorKind, child.Instance}
	}
	return s
}

// newMessage returns a message of the given type. `part` distinguishes the messages about one revision.
func newMessage(kind string, view instanceview.Instance, root, part string, at time.Time) message {
	return message{
		Type: kind, SessionID: view.Name, RootID: root, Version: protocolVersion,
		ID: fmt.Sprintf("%s@%d/%d.%s", view.Name, view.CreatedAt.UnixMilli(), view.Revision, part), CreatedAt: strconv.FormatInt(at.UnixMilli(), 10),
	}
}

// definition returns the machine of the instance as a config of XState. A machine without such a form has only its ID.
func definition(machines *durable.Machines, record instances.Record) string {
	machine, _, err := machines.Restore(record)
	if err != nil {
		machine, err = machines.Lookup(record.Instance.Machine)
	}
	if err == nil && machine.Outline() != nil {
		if config, err := xstatejson.WriteOutline(machine.Outline()); err == nil {
			return string(config)
		}
	}
	return string(object(map[string]any{"id": record.Instance.Machine}))
}

// eventOf returns the event in XState's form: the keys of the payload are next to the type. The result of a service or
// child is in `output`, and its failure in `error`. Keys with `$` are omitted, because $task has a task token.
func eventOf(typ string, payload any) json.RawMessage {
	event := map[string]any{}
	text, err := json.Marshal(payload)
	switch {
	case err != nil || string(text) == "null":
	case strings.HasPrefix(typ, "done.invoke.") || strings.HasPrefix(typ, "done.child."):
		event["output"] = json.RawMessage(text)
	case strings.HasPrefix(typ, "error.invoke.") || strings.HasPrefix(typ, "error.child."):
		event["error"] = json.RawMessage(text)
	default:
		var keys map[string]json.RawMessage
		_ = json.Unmarshal(text, &keys) // A payload that is not an object has no keys.
		for key, value := range keys {
			if !strings.HasPrefix(key, "$") {
				event[key] = value
			}
		}
	}
	event["type"] = typ
	return object(event)
}

// lastEvent returns the last event of the history, without the payload, which is not stored. If the history is empty,
// it returns XState's start event.
func lastEvent(record instances.Record) json.RawMessage {
	if n := len(record.History); n > 0 {
		return eventOf(record.History[n-1].Event, nil)
	}
	return eventOf("xstate.init", nil)
}

// object encodes an object whose values are JSON or strings.
func object(values map[string]any) json.RawMessage {
	text, err := json.Marshal(values)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}
