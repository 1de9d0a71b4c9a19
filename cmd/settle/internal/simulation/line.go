package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/statechart"
)

// line is a parsed line of the input.
type line struct {
	// typ is the event's type, and `body` is the whole event.
	typ  string
	body json.RawMessage
	keys map[string]json.RawMessage
	// advances is set if the line advances the clock.
	advances bool
	advance  Duration
}

// parseLine parses a line. Errors wrap statechart.ErrNotAnEvent.
func parseLine(text []byte) (line, error) {
	if !utf8.Valid(text) {
		return line{}, fmt.Errorf("%w: expected UTF-8, got other bytes", statechart.ErrNotAnEvent)
	}
	const expected = `expected a JSON object such as {"type": "VERIFY"} or {"$advance": "5m"}`
	var body bytes.Buffer
	if err := json.Compact(&body, text); err != nil {
		return line{}, fmt.Errorf("%w: %s: %w", statechart.ErrNotAnEvent, expected, err)
	}
	given := line{body: body.Bytes()}
	if err := json.Unmarshal(given.body, &given.keys); err != nil || given.keys == nil {
		return line{}, fmt.Errorf("%w: %s, got %.40s", statechart.ErrNotAnEvent, expected, given.body)
	}
	advance, advances := given.keys["$advance"]
	if advances {
		if len(given.keys) > 1 {
			return line{}, fmt.Errorf("%w: expected no key beside $advance, got %.80s", statechart.ErrNotAnEvent, given.body)
		}
		given := line{advances: true}
		if err := given.advance.UnmarshalText(bytes.Trim(advance, `"`)); err != nil {
			return line{}, fmt.Errorf("%w: $advance: %w", statechart.ErrNotAnEvent, err)
		}
		return given, nil
	}
	if json.Unmarshal(given.keys["type"], &given.typ) != nil || given.typ == "" {
		return line{}, fmt.Errorf("%w: expected the type of an event under the key type, got %.80s", statechart.ErrNotAnEvent, given.body)
	}
	return given, nil
}

// Duration is a duration that is written as "5m", or as a number of milliseconds.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	duration, err := time.ParseDuration(string(text))
	if ms, number := strconv.ParseInt(string(text), 10, 64); number == nil && ms < int64(1<<63-1)/int64(time.Millisecond) {
		duration, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || duration < 0 {
		return fmt.Errorf(`expected a duration such as "5m", or milliseconds, at least 0, got %q`, text)
	}
	*d = Duration(duration)
	return nil
}

// reserved lists the types of the events that the machine itself creates, and the types and prefixes that XState and
// this runtime reserve.
var reserved = []string{statechart.ReservedPrefix, "xstate.", "done.state.", statechart.ExecutionError}

// event returns the event of a line.
func (s *Simulation) event(given line) (statechart.Event, error) {
	for _, prefix := range endPrefixes {
		if id, ok := strings.CutPrefix(given.typ, prefix.text); ok {
			return s.end(given, id, prefix)
		}
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(given.typ, prefix) {
			return statechart.Event{}, fmt.Errorf("%w: the machine creates events of the type %q itself; to let time pass, send {\"$advance\": \"5m\"}", ErrRefused, given.typ)
		}
	}
	event := statechart.Event{Type: given.typ, Payload: given.body}
	if id, ok := given.keys["$id"]; ok && json.Unmarshal(id, &event.ID) != nil {
		return event, fmt.Errorf("%w: expected a string under the key $id, got %.80s", statechart.ErrNotAnEvent, id)
	}
	return event, nil
}

// endPrefix is a prefix of the types of events that end services or children.
type endPrefix struct {
	text                   string
	failed, service, child bool
}

var endPrefixes = []endPrefix{
	{"done.invoke.", false, true, false}, {"error.invoke.", true, true, false},
	{"done.child.", false, false, true}, {"error.child.", true, false, true},
	{"xstate.done.actor.", false, true, true}, {"xstate.error.actor.", true, true, true},
}

// end returns the event that ends a service or a child.
func (s *Simulation) end(given line, id string, prefix endPrefix) (statechart.Event, error) {
	output, failure := given.keys["output"], errors.New("failed")
	if cause, ok := given.keys["error"]; ok {
		text := string(cause)
		_ = json.Unmarshal(cause, &text) // A value other than a string stays JSON.
		failure = errors.New(text)
	}
	var running []string
	for _, service := range s.snapshot.Services {
		running = append(running, service.ID)
		switch {
		case !prefix.service || service.ID != id && s.actorID(service.State, service.ID, false) != id:
		case prefix.failed:
			return service.Failed(failure), nil
		default:
			return service.Done(output), nil
		}
	}
	for _, child := range s.snapshot.Children {
		running = append(running, child.ID)
		switch {
		case !prefix.child || child.ID != id && s.actorID(child.State, child.ID, true) != id:
		case prefix.failed:
			return child.Failed(failure), nil
		default:
			return child.Done(output), nil
		}
	}
	return statechart.Event{}, fmt.Errorf("%w: expected the ID of a running service or child (%s), got %q", ErrRefused, list(running), id)
}

// actorID returns the ID that XState gives to an invocation without an ID, such as "0.light.on": its position in the
// state `path`, and the state's ID. `id` is the ID that this runtime gives to the same invocation. If the invocation
// has an ID of its own, actorID returns "".
func (s *Simulation) actorID(path, id string, child bool) string {
	root, prefix := s.chart.Definition(), s.chart.ID()
	states, services := root.States, root.Invoke
	for key := range strings.SplitSeq(path, ".") {
		for i := range states {
			if states[i].ID == key {
				states, services, prefix = states[i].States, states[i].Invoke, prefix+"."+key
				break
			}
		}
	}
	if path == "" {
		path = s.chart.ID()
	}
	position := 0
	if rest, ok := strings.CutPrefix(id, path+":"); ok {
		position, _ = strconv.Atoi(rest)
	} else if id != path {
		return ""
	}
	if child {
		position += len(services)
	}
	return strconv.Itoa(position) + "." + prefix
}
