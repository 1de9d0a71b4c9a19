package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// session is the service for every <invoke>. The host does not call it, but runs the invoked document as a separate
// session.
var session = statechart.ServiceFunc("scxml", func(context.Context, env, statechart.Call) (any, error) {
	panic("the host runs it")
})

// sessions maps session names to data models. Restored snapshots look up their data model here.
var sessions sync.Map

// world holds the sessions of one case and their pending deliveries, in virtual time.
type world struct {
	name    string
	now     time.Time
	hosts   []*host
	pending []delivery // in the order of their requests
	log     []string   // lines of <log>
}

// delivery is an event with its delivery time.
type delivery struct {
	at    time.Time
	to    *host
	event statechart.Event
	// `from` and `id` identify a delayed <send> to another session, so that the sender can cancel it.
	from *host
	id   string
}

type host struct {
	world    *world
	name     string
	document *document
	data     *sessionData
	snapshot statechart.Snapshot[env]
	parent   *host
	stopped  bool
	// invokeID and `invocation` identify the session in its parent.
	invokeID   string
	invocation statechart.Invocation
	children   []*host
	// failed holds the keys of invocations that could not be started.
	failed map[string]bool
}

// start starts a session. The parent is nil for the top-level session.
func (w *world) start(d *document, parent *host, invocation statechart.Invocation, passed map[string]json.RawMessage) (*host, error) {
	h := &host{
		world: w, name: fmt.Sprintf("%s/%d", w.name, len(w.hosts)), document: d,
		parent: parent, invocation: invocation, invokeID: invocation.ID, failed: map[string]bool{},
	}
	w.hosts = append(w.hosts, h)
	var err error
	if h.data, err = newData(h, d, passed); err != nil {
		return nil, err
	}
	sessions.Store(h.name, h.data)
	step, err := d.chart.Start(statechart.Start{Instance: h.name, At: w.now})
	if err != nil {
		return nil, err
	}
	return h, h.take(step)
}

// apply runs the macrostep of an event.
func (h *host) apply(event statechart.Event) error {
	if h.stopped {
		return nil
	}
	event.At = h.world.now
	if err := h.receive(event); err != nil {
		return err
	}
	if event.Invocation != "" && !h.awaits(event.Invocation) {
		// The chart would ignore this event as stale. In SCXML, the event of a session that ended by itself stays in
		// the queue, even if the invoking state was left.
		event.Invocation = ""
	}
	step, err := h.document.chart.Step(h.snapshot, event)
	if err != nil {
		return fmt.Errorf("session %s, event %s: %w", h.name, event.Type, err)
	}
	if !step.Handled {
		return nil
	}
	return h.take(step)
}

// awaits reports whether the snapshot waits for the end of an invocation.
func (h *host) awaits(key string) bool {
	return slices.ContainsFunc(h.snapshot.Services, func(i statechart.Invocation) bool { return i.Key == key })
}

// receive processes an event before transitions are selected. It runs the <finalize> of the invocation that sent the
// event, and forwards the event to invoked sessions that ask for it.
func (h *host) receive(event statechart.Event) error {
	told, external := event.Payload.(*message)
	if external && told.Kind != "external" {
		return nil
	}
	for _, child := range h.children {
		invoke := h.document.invokes[child.invokeID]
		if finalize := invoke.one("finalize"); finalize != nil && external && told.InvokeID == child.invokeID {
			h.data.bind(event)
			if err := h.data.run(finalize.children, nil); err != nil {
				return err
			}
		}
		if invoke.attrs["autoforward"] == "true" && !strings.HasPrefix(event.Type, "done.invoke.") {
			forwarded := event
			for _, timer := range h.snapshot.Timers {
				if event.Type == statechart.TimerEvent && timer.ID == event.Timer {
					forwarded = sentEvent(timer.Event)
				}
			}
			h.world.pending = append(h.world.pending, delivery{at: h.world.now, to: child, event: forwarded})
		}
	}
	return nil
}

// sentEvent decodes an event that one session sends to another.
func sentEvent(body json.RawMessage) statechart.Event {
	var head struct{ Type string }
	told := &message{}
	if err := json.Unmarshal(body, &head); err != nil {
		panic(err)
	}
	if err := json.Unmarshal(body, told); err != nil {
		panic(err)
	}
	return statechart.Event{Type: head.Type, Payload: told}
}

// take stores and restores the snapshot after a step, and performs the effects of the step. It starts and cancels
// invoked sessions. If the session has ended, take reports its end to the parent.
func (h *host) take(step statechart.Step[env]) error {
	stored, err := json.Marshal(step.Next)
	if err != nil {
		return err
	}
	if h.snapshot, err = h.document.chart.Restore(stored); err != nil {
		return err
	}
	again, err := json.Marshal(h.snapshot)
	if err != nil {
		return err
	}
	if string(again) != string(stored) {
		return fmt.Errorf("restored %s as %s", stored, again)
	}
	for _, effect := range step.Effects {
		d := delivery{at: effect.At, to: h, event: statechart.Event{Type: statechart.TimerEvent, Timer: effect.Timer}}
		if effect.Kind == statechart.Send {
			k := slices.IndexFunc(h.world.hosts, func(to *host) bool { return to.name == effect.To })
			d = delivery{at: h.world.now, to: h.world.hosts[k], event: sentEvent(effect.Event)}
		}
		h.world.pending = append(h.world.pending, d)
	}
	if err := h.invokeSessions(); err != nil {
		return err
	}
	if h.snapshot.Status != statechart.Active {
		h.stopped = true
		h.world.pending = slices.DeleteFunc(h.world.pending, func(d delivery) bool { return d.from == h })
		if h.parent != nil && h.snapshot.Status == statechart.Done {
			end := h.invocation.Done(&message{Kind: "external", InvokeID: h.invokeID, Origin: h.data.location(), OriginType: scxmlProcessor, Data: h.snapshot.Output})
			h.world.pending = append(h.world.pending, delivery{at: h.world.now, to: h.parent, event: end})
		}
	}
	return nil
}

// cancel ends a session whose invocation has ended. Its exit actions run. Its parent receives nothing more from it.
func (h *host) cancel() error {
	if h.stopped {
		return nil
	}
	step, err := h.document.chart.Stop(h.snapshot, h.world.now)
	if err != nil {
		return err
	}
	step.Effects = slices.DeleteFunc(step.Effects, func(e statechart.Effect) bool { return e.To == h.parent.name })
	return h.take(step)
}

// invokeSessions cancels sessions that the snapshot no longer waits for, and starts new ones.
func (h *host) invokeSessions() error {
	var failure error
	h.children = slices.DeleteFunc(h.children, func(child *host) bool {
		if h.awaits(child.invocation.Key) {
			return false
		}
		failure = errors.Join(failure, child.cancel())
		return true
	})
	if failure != nil {
		return failure
	}
	for _, invocation := range h.snapshot.Services {
		if slices.ContainsFunc(h.children, func(child *host) bool { return child.invocation.Key == invocation.Key }) || h.failed[invocation.Key] {
			continue
		}
		if err := h.invoke(invocation); err != nil {
			h.failed[invocation.Key] = true
			if err := h.apply(statechart.Event{Type: statechart.ExecutionError, Payload: errorMessage(err)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// invoke evaluates an <invoke> and starts its session.
func (h *host) invoke(invocation statechart.Invocation) error {
	e := h.document.invokes[invocation.ID]
	if location, ok := e.attrs["idlocation"]; ok {
		if err := h.data.assign(location, h.data.js.ToValue(invocation.ID)); err != nil {
			return at(e, err)
		}
	}
	typ, err := h.data.stringOf(e, "type")
	if err != nil {
		return at(e, err)
	}
	if typ = strings.TrimSuffix(typ, "/"); typ != "" && typ != "scxml" && typ != "http://www.w3.org/TR/scxml" {
		return at(e, fmt.Errorf("the type %q is not supported", typ))
	}
	parameters, err := h.data.parameters(e)
	if err != nil {
		return at(e, err)
	}
	var passed map[string]json.RawMessage
	if parameters.Data != nil {
		if err := json.Unmarshal(parameters.Data, &passed); err != nil {
			return at(e, err)
		}
	}
	root, err := h.invoked(e)
	if err != nil {
		return at(e, err)
	}
	d, err := readDocument(root, h.document.dir)
	if err != nil {
		return at(e, err)
	}
	child, err := h.world.start(d, h, invocation, passed)
	if child != nil {
		h.children = append(h.children, child)
	}
	return err
}

// invoked returns the document that an <invoke> names or contains.
func (h *host) invoked(e *element) (*element, error) {
	file, err := h.data.stringOf(e, "src")
	if err != nil {
		return nil, err
	}
	if file != "" {
		text, err := readFile(h.document.dir, file)
		if err != nil {
			return nil, err
		}
		return parseXML(text)
	}
	content := e.one("content")
	if content == nil {
		return nil, fmt.Errorf("expected src or content")
	}
	value, err := h.data.value(content)
	if err != nil {
		return nil, err
	}
	if node, ok := value.Export().(*domNode); ok {
		return node.element, nil
	}
	return nil, fmt.Errorf("expected an SCXML document, got %v", value)
}

// find returns the host that a target names, or nil. The argument is the target without its prefix "#_".
func (h *host) find(target string) *host {
	if target == "parent" {
		return h.parent
	}
	if name, ok := strings.CutPrefix(target, "scxml_"); ok {
		for _, other := range h.world.hosts {
			if other.name == name {
				return other
			}
		}
		return nil
	}
	for _, child := range h.children {
		if child.invokeID == target {
			return child
		}
	}
	return nil
}

// sendLater stores a delayed event for another session.
func (h *host) sendLater(to *host, id, typ string, delay time.Duration, sent *message) {
	h.world.pending = append(h.world.pending, delivery{at: h.world.now.Add(delay), to: to, event: statechart.Event{Type: typ, Payload: sent}, from: h, id: id})
}

// cancelLater cancels the delayed events to other sessions with the ID.
func (h *host) cancelLater(id string) {
	h.world.pending = slices.DeleteFunc(h.world.pending, func(d delivery) bool { return d.from == h && d.id == id && id != "" })
}

// advance lets time pass and delivers due events.
func (w *world) advance(by time.Duration) error {
	until := w.now.Add(by)
	for {
		next := -1
		for k, d := range w.pending {
			if !d.at.After(until) && (next < 0 || d.at.Before(w.pending[next].at)) {
				next = k
			}
		}
		if next < 0 {
			w.now = until
			return nil
		}
		d := w.pending[next]
		w.pending = slices.Delete(w.pending, next, next+1)
		if d.at.After(w.now) {
			w.now = d.at
		}
		if err := d.to.apply(d.event); err != nil {
			return err
		}
	}
}
