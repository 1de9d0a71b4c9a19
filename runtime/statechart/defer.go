package statechart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Deferred is an event that waits in a snapshot. An active state defers the events listed in its Defer, except an event
// that enables a transition of that state or of a descendant. If any active state defers the event, no transition is
// taken. Only events from outside and events sent with SendAfter are deferred (UML 2.5.1, 14.2.3.4.4).
//
// Once the configuration is settled, the same step replays the oldest event that is no longer deferred, then the next
// one. If a replayed event fails or cannot be decoded, the step rolls it back and requests a ParkEvent effect.
type Deferred struct {
	Type  string
	ID    string          // the producer's event ID, or empty
	Event json.RawMessage // the JSON form, without the ID
}

type deferredJSON struct {
	ID    string          `json:"id,omitempty"`
	Event json.RawMessage `json:"event"`
}

// defers reports whether the event is deferred, given the transitions that it enables.
func (x *interpreter) defers(enabled []enabledTransition) bool {
	if x.event.Invocation != "" || strings.HasPrefix(x.event.Type, ReservedPrefix) {
		return false
	}
	for _, i := range x.chart.active(&x.snapshot.configuration) {
		overrides := func(t enabledTransition) bool { return t.source == i || x.chart.isDescendant(t.source, i) }
		if x.chart.nodes[i].defers(x.event.Type) && !slices.ContainsFunc(enabled, overrides) {
			return true
		}
	}
	return false
}

// defers reports whether the state defers events of the type.
func (n *node) defers(typ string) bool {
	return slices.ContainsFunc(n.def.Defer, func(descriptor string) bool { return matches(descriptor, typ) })
}

// deferEvent runs the macrostep of an event that is deferred. It stores the event and takes no transition for it. It
// handles only the ExecutionErrors that failed guards have raised.
func (x *interpreter) deferEvent() error {
	if err := x.keepEvent(); err != nil {
		return err
	}
	x.moved = true
	if len(x.internalQueue) == 0 {
		return nil
	}
	x.own = Event{At: x.event.At}
	x.event = &x.own
	return x.complete()
}

// keepEvent appends the event, as JSON, to the deferred events. If the event cannot be encoded or restored, the step
// fails: raising an ExecutionError instead would lose the event.
func (x *interpreter) keepEvent() error {
	x.runs(deferCode, "", 0)
	if len(x.snapshot.Deferred) >= DeferredMax {
		return x.fail(fmt.Errorf("%w: more than %d deferred events (DeferredMax)", ErrLimit, DeferredMax))
	}
	var body json.RawMessage
	var err error
	if x.event.raw != "" {
		body, err = withoutReserved(x.event.raw)
	} else {
		body, err = encodeEvent(x.event.Type, x.event.Payload)
	}
	if err == nil {
		_, err = x.chart.sent(body)
	}
	if err != nil {
		return x.fail(err)
	}
	x.writable().Deferred = append(slices.Clip(x.snapshot.Deferred), Deferred{Type: x.event.Type, ID: x.event.ID, Event: body})
	return nil
}

// withoutReserved returns the JSON form of an event without the keys that only the host reads. It keeps the order of
// the keys: if keys differ only in case, encoding/json reads the last one.
func withoutReserved(event string) (json.RawMessage, error) {
	decoder := json.NewDecoder(strings.NewReader(event))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	kept := []byte{'{'}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if key == "$id" || key == "$task" || key == "$chain" {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(appendText(kept, key), ':'), value...)
	}
	var compacted bytes.Buffer
	err := json.Compact(&compacted, append(kept, '}'))
	return compacted.Bytes(), err
}

// replay runs the macrosteps of deferred events that no longer have to wait. Events that cannot be decoded are parked.
func (x *interpreter) replay() {
	for waiting := len(x.snapshot.Deferred); waiting > 0 && !x.ended && x.atRest(); waiting-- {
		k, event, err := x.oldestReleased()
		if k < 0 {
			return
		}
		x.own, x.moved = event, true
		x.event = &x.own
		deferred := x.snapshot.Deferred[k]
		x.writable().Deferred = slices.Delete(slices.Clone(x.snapshot.Deferred), k, k+1)
		if err == nil {
			err = x.replayOne()
		}
		if err != nil {
			x.park(deferred, err)
		}
	}
}

// park requests a ParkEvent effect. These effects do not count towards EffectsMax, because a step has at most
// DeferredMax of them, plus one for a timer.
func (x *interpreter) park(event Deferred, reason error) {
	x.parked++
	x.effects = append(x.effects, Effect{ID: x.nextID(), Kind: ParkEvent, Event: withEventID(event), Message: cut(reason.Error(), ReasonBytesMax)})
}

// selectSafely is selectTransitions, but turns a panic in a guard into an error.
func (x *interpreter) selectSafely() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = x.panicked(r)
		}
	}()
	return x.selectTransitions()
}

// replayOne runs the macrostep of a deferred event. An error rolls everything back, except that IDs used by the
// macrostep are not reused.
func (x *interpreter) replayOne() (err error) {
	snapshot, effects, report := x.snapshot, slices.Clone(x.effects), x.onMicrostep
	restore := x.chart.contexts.keep(x.context)
	var reported []Microstep // the microsteps to report once the macrostep succeeds
	if report != nil {
		x.onMicrostep = func(m Microstep) { reported = append(reported, m) }
	}
	snapshot.configuration = snapshot.configuration.clone()
	x.historyOwned, x.microsteps = false, 0
	defer func() {
		if r := recover(); r != nil {
			err = x.panicked(r)
		}
		if err != nil {
			restore()
			x.snapshot, x.effects = snapshot, effects
			x.ended, x.historyOwned, x.tracing = false, false, nil
			x.internalQueue, x.statesToInvoke = x.internalQueue[:0], x.statesToInvoke[:0]
			reported = nil
		}
		if x.onMicrostep = report; report != nil {
			for _, m := range reported {
				report(m)
			}
		}
	}()
	x.ownContext()
	if err := x.macrostep(); err != nil {
		return err
	}
	if err := x.accepted(len(effects)); err != nil {
		return err
	}
	if err := x.stalled(); err != nil || x.fits == nil {
		return err
	}
	return x.fits.fitsNow()
}

// cut returns the text, truncated to bytesMax, as valid UTF-8.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax], "") + "…"
}

// withEventID returns the original JSON form of a deferred event, including the producer's ID. It keeps the order of
// the keys: see withoutReserved.
func withEventID(deferred Deferred) json.RawMessage {
	_, keys, isObject := bytes.Cut(deferred.Event, []byte("{"))
	if deferred.ID == "" || !isObject {
		return deferred.Event
	}
	body := append(appendText([]byte(`{"$id":`), deferred.ID), ',') // An event has at least the key "type".
	return append(body, keys...)
}

// atRest reports whether deferred events may be replayed: the snapshot is settled, or the chart is foreign.
func (x *interpreter) atRest() bool {
	return x.chart.foreign || x.snapshot.settled()
}

// oldestReleased returns the first deferred event that would not be deferred again, and its position, or -1 if no such
// event exists. An event that cannot be decoded is released once no active state defers its type. The error then says
// why decoding fails. If a guard fails and the chart handles ExecutionError, the guard counts as false here, and the
// replay of the event raises the error. Without a handler, or if the guard panics, the event stays deferred.
func (x *interpreter) oldestReleased() (int, Event, error) {
	at, queued := x.event.At, len(x.internalQueue)
	for k, waiting := range x.snapshot.Deferred {
		x.runs(replayCode, "", 0)
		event, err := x.chart.sent(waiting.Event)
		event.ID, event.At = waiting.ID, at
		x.own = event
		x.event = &x.own
		if !x.defers(nil) {
			if err != nil {
				err = x.fail(err)
			}
			return k, event, err
		}
		if err != nil {
			continue
		}
		err = x.selectSafely()
		x.internalQueue = x.internalQueue[:queued]
		if err == nil && !x.defers(x.enabled) {
			return k, event, nil
		}
	}
	return -1, Event{}, nil
}

func deferredEventsJSON(deferred []Deferred) []deferredJSON {
	var form []deferredJSON
	for _, event := range deferred {
		form = append(form, deferredJSON{ID: event.ID, Event: event.Event})
	}
	return form
}

func (c *chart) restoreDeferred(form *snapshotJSON, s *bareSnapshot) error {
	if len(form.Deferred) > DeferredMax {
		return c.unreadable("expected at most %d deferred events (DeferredMax), got %d", DeferredMax, len(form.Deferred))
	}
	for i, stored := range form.Deferred {
		typ, err := typeOf(stored.Event) // replay decodes the rest.
		if err != nil {
			return c.unreadable("deferred event %d: %w", i, err)
		}
		if len(stored.ID) > EventNameBytesMax {
			return c.unreadable("deferred event %d: expected an ID of at most %d bytes, got %d", i, EventNameBytesMax, len(stored.ID))
		}
		s.Deferred = append(s.Deferred, Deferred{Type: typ, ID: stored.ID, Event: stored.Event})
	}
	return nil
}

// checkDefer checks that each event in Defer can reach the state and can be stored. It also checks that the state has
// no unguarded transition for the event.
func (c *compiler) checkDefer(n *node) {
	handled := map[string]bool{}
	for i := 0; i < len(n.def.On) && len(n.def.Defer) > 0; i++ {
		if n.def.On[i].Guard.test == nil {
			handled[n.def.On[i].Event] = true
		}
	}
	for _, descriptor := range n.def.Defer {
		deferral := c.deferral(descriptor)
		if !deferral.arrives {
			c.find(n, fmt.Sprintf("defers %q, but Payloads declares no such event from outside", descriptor), "declare it, or remove the descriptor from Defer")
			continue
		}
		if n.kind == atomic && n.index > 0 && !n.settled && !deferral.reaches {
			c.find(n, fmt.Sprintf("is unsettled, so the event %q cannot reach it to be deferred", descriptor), "tag the state settled, or defer the event in a settled state")
		}
		for matching := range descriptorsOf(descriptor) {
			if handled[matching] {
				c.find(n, fmt.Sprintf("defers %q, but also handles it without a guard", descriptor), "remove it from Defer, or guard the transition")
				break
			}
		}
		for _, lost := range deferral.lost {
			c.find(n, fmt.Sprintf("defers %q, whose payload's field %v.%s is not stored", lost.event, lost.typ, lost.field),
				fmt.Sprintf("export it with a unique JSON name, or add MarshalJSON and UnmarshalJSON to %v", lost.typ))
		}
	}
}
