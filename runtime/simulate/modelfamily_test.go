package simulate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds parents and children to the sequential model.

// familyHead is the part of a message between parent and child that the model uses.
type familyHead struct {
	Type    string           `json:"type"`
	Parent  instances.Parent `json:"$parent"`
	Input   json.RawMessage  `json:"input"`
	Child   string           `json:"child"`
	Status  string           `json:"status"`
	Output  json.RawMessage  `json:"output"`
	Message string           `json:"message"`
}

func readFamily(body string) (head familyHead) {
	if err := json.Unmarshal([]byte(body), &head); err != nil {
		panic(err)
	}
	return head
}

// isChildOf reports whether the instance exists and is the child that `parent` describes.
func (r *replay) isChildOf(parent instances.Parent) bool {
	return r.instance != nil && r.record.Parent != nil && *r.record.Parent == parent
}

// examineFamily examines a message from a parent or a child. Its results mean the same as the results of examine.
func (r *replay) examineFamily(head head, message accepted) (event statechart.Event, skip bool, reason error) {
	event.Type = head.Type
	family := readFamily(message.body)
	switch head.Type {
	case "settle.start", "settle.stop":
		if r.instance == nil && r.isStoppedAtStart() {
			return event, !r.beganWith(message), nil
		}
		if head.Type == "settle.stop" {
			return event, !r.isChildOf(family.Parent) || r.instance.Status() != statechart.Active, nil
		}
		if r.instance != nil && !r.isChildOf(family.Parent) {
			return event, false, errors.New("another message started it")
		}
		return event, r.instance != nil || r.record.Revision == 0 || !r.beganWith(message), nil
	default:
		return event, r.instance == nil || head.Incarnation != r.record.CreatedAt.UnixMilli(), nil
	}
}

// isStoppedAtStart reports whether the instance is a child that was stopped before it started.
func (r *replay) isStoppedAtStart() bool {
	return len(r.record.History) > 0 && r.record.History[0].Event == "settle.stop" && r.record.History[0].By == ""
}

// stopAtStart models a child that was stopped before it started. The stop is the first step in its history.
func (r *replay) stopAtStart() error {
	stopped, err := r.machine.Stopped()
	if err != nil {
		return err
	}
	if first := r.record.History[0]; len(first.From) > 0 || !slices.Equal(first.To, stopped.State()) {
		return differ("the history begins with %+v, want a stop in %v", first, stopped.State())
	}
	r.instance, r.at = limited(stopped), 1
	r.simulation.count("children stopped before their start", 1)
	return nil
}

// checkAddressee returns the reason why an event does not reach the instance, or nil if it does.
func (r *replay) checkAddressee(message accepted) error {
	if strings.Contains(message.body, `"$parent"`) && !r.isChildOf(readFamily(message.body).Parent) {
		return errors.New("the child does not exist")
	}
	return r.checkBegins(readFamily(message.body).Type)
}

// checkBegins returns the reason why an event does not start an instance, or nil if the instance exists or the event
// starts it.
func (r *replay) checkBegins(typ string) error {
	if r.instance != nil {
		return nil
	}
	if r.machine.TakesInput() {
		return errors.New("only a parent starts it")
	}
	if !r.machine.StartedBy(typ) {
		return errors.New("it does not start one")
	}
	return nil
}

// stop stops the instance. The stop must be the next step in the history.
func (r *replay) stop() error {
	if r.at == len(r.record.History) {
		return differ("the history ends before the instance is stopped")
	}
	was, from := r.record.History[r.at], r.instance.State()
	children := r.instance.Children()
	next, effects, stopped, err := r.instance.Stop(was.At)
	if err != nil {
		return err
	}
	r.instance = next
	if !stopped || was.Event != "settle.stop" || fmt.Sprint(was.From, was.To) != fmt.Sprint(from, r.instance.State()) {
		return differ("step %d of the history differs: want a stop in %v, got %+v", r.at, from, was)
	}
	r.at++
	r.note(effects)
	r.recordLeft(children, was.At)
	return nil
}

// recordLeft records the children for which the instance no longer waits after a step.
func (r *replay) recordLeft(before []statechart.ChildRef, at time.Time) {
	for _, ref := range before {
		if !r.waitsForChild(ref.Key) {
			r.left[r.childName(ref.Key, ref.Machine)] = at
		}
	}
}

// endOfChild applies the end of a child, if the instance still has the child.
func (r *replay) endOfChild(message accepted) error {
	head := readFamily(message.body)
	for _, ref := range r.instance.Children() {
		if ref.Key != head.Child {
			continue
		}
		name := r.childName(ref.Key, ref.Machine)
		switch head.Status {
		case "done":
			if is := r.simulation.output(name); !equalJSON(is, head.Output) {
				return differ("%s received the output %s of %s, whose output is %s", r.name, head.Output, name, is)
			}
			return r.step(ref.Done(head.Output))
		case "failed":
			if head.Message == "" {
				return differ("%s received the failure of %s without a reason", r.name, name)
			}
			r.simulation.count("children that failed to start", 1)
			return r.step(ref.Failed(errors.New(head.Message)))
		default:
			return differ("%s received the status %q of %s", r.name, head.Status, name)
		}
	}
	return nil
}

func (r *replay) childName(key, machine string) string {
	id, err := instances.ParseID(r.name)
	if err != nil {
		panic(err)
	}
	return instances.ChildName(id, r.record.CreatedAt, key, machine).String()
}

// load reads a stored instance.
func (s *simulation) load(name string) instances.Record {
	id, err := instances.ParseID(name)
	if err != nil {
		s.t.Fatal(err)
	}
	record, err := s.store.Load(s.t.Context(), id)
	if err != nil {
		s.problem("%s cannot be read: %v", name, err)
	}
	return record
}

// output returns the output of a finished instance.
func (s *simulation) output(name string) json.RawMessage {
	var snapshot struct{ Output json.RawMessage }
	if err := json.Unmarshal(s.recalled(s.load(name)).Snapshot, &snapshot); err != nil {
		s.problem("%s: %v", name, err)
	}
	return snapshot.Output
}

// commitWithin is longer than any step takes to commit. A process may freeze again each time it continues, up to once
// for each fault of the run. commitWithin is much shorter than operatorsRound, the interval at which an operator
// resends messages that a queue gave up on.
const commitWithin = 2 * time.Hour

// checkFamily checks that parents and children agree about active children: no start, end or stop was lost.
func (s *simulation) checkFamily(ends []*replay) {
	byName := map[string]*replay{}
	for _, r := range ends {
		byName[r.name] = r
	}
	for _, r := range ends {
		if r.instance == nil {
			continue
		}
		for _, ref := range r.instance.Children() {
			name := r.childName(ref.Key, ref.Machine)
			if s.ledger.failed[r.name] || s.ledger.failed[name] {
				continue // the start message, or the report of the end, was dropped
			}
			if child := byName[name]; child == nil || child.instance == nil || child.instance.Status() != statechart.Active {
				s.problem("%s waits for its child %s, which does not exist or is not active", r.name, name)
			}
		}
		if r.record.Parent == nil {
			continue
		}
		parent := byName[r.record.Parent.Instance]
		if parent != nil && !r.isStoppedAtStart() {
			if at, has := parent.left[r.name]; has && r.startedAt.After(at.Add(commitWithin)) {
				s.problem("%s started at %v, but %s stopped waiting for it at %v", r.name, r.startedAt, parent.name, at)
			}
		}
		if r.instance.Status() != statechart.Active {
			continue
		}
		if s.ledger.failed[r.record.Parent.Instance] {
			continue // the stop message was dropped
		}
		if parent == nil || parent.instance == nil || !parent.waitsForChild(r.record.Parent.Child) {
			s.problem("%s is active, but %s does not wait for it", r.name, r.record.Parent.Instance)
		}
	}
	for _, parent := range ends {
		for name, input := range parent.spawned {
			for _, queue := range s.ledger.of(name) {
				for _, message := range queue {
					if head := readFamily(message.body); strings.Contains(message.body, `"settle.start"`) && !sameInput(head.Input, input) {
						s.problem("%s should start with %s, but was sent %s", name, input, head.Input)
					}
				}
			}
		}
	}
}

func sameInput(a, b json.RawMessage) bool {
	return len(a) == 0 && len(b) == 0 || equalJSON(a, b)
}

// waitsForChild reports whether the instance waits for the child with the key.
func (r *replay) waitsForChild(key string) bool {
	for _, ref := range r.instance.Children() {
		if ref.Key == key {
			return true
		}
	}
	return false
}
