package simulate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
)

// This file checks fields that one build does not know. The checks do not use the charts, so a defect in the charts
// cannot hide in the model.

// shelved is the state of an instance of the machine with two builds, as its last commit stored it.
type shelved struct {
	// gifts maps the serial of each applied event to the gift that was stored with it, or "".
	gifts map[string]string
	// deferred holds the deferred events, by serial. `by` has the build that deferred the event.
	deferred map[string]json.RawMessage
	by       map[string]int
	// builds holds the build of each step in the history: 0 is the old one, and 1 the new one.
	builds []int
	last   int
}

// shelvedIn reads a snapshot.
func shelvedIn(snapshot json.RawMessage) (s shelved, err error) {
	var form struct {
		Context  newShelf
		Deferred []struct{ Event json.RawMessage }
	}
	s.gifts, s.deferred = map[string]string{}, map[string]json.RawMessage{}
	if err = json.Unmarshal(snapshot, &form); err != nil {
		return s, err
	}
	for _, serial := range form.Context.Plain {
		s.gifts[serial] = form.Context.Gifts[serial]
	}
	for _, entry := range form.Context.Lines {
		s.gifts[entry.Serial] = entry.Gift
	}
	for serial, entry := range form.Context.Named {
		s.gifts[serial] = entry.Gift
	}
	for _, waiting := range form.Deferred {
		var event struct{ Serial string }
		if err = json.Unmarshal(waiting.Event, &event); err != nil {
			return s, err
		}
		s.deferred[event.Serial] = waiting.Event
	}
	return s, nil
}

// recordFields checks a commit of the machine with two builds. No stored gift may change, a new gift must equal the
// sent gift, and a deferred event must have all its keys. The caller holds the ledger's lock.
func (s *simulation) recordFields(call takenCall, record instances.Record) {
	name := record.Instance.String()
	build, was := s.ledger.builds[call.process], s.ledger.shelved[name]
	now, err := shelvedIn(record.Snapshot)
	if err != nil {
		s.problem("%s stores %s with a snapshot that cannot be read: %v", call.process, name, err)
		return
	}
	for serial, gift := range was.gifts {
		if got, ok := now.gifts[serial]; !ok || got != gift {
			s.problem("%s of build %d changes the gift of %s in %s: want %q, got %q (there: %v)", call.process, build, serial, name, gift, got, ok)
		}
	}
	for serial, gift := range now.gifts {
		if _, ok := was.gifts[serial]; ok {
			continue
		}
		sent := giftIn(s.plan.sent[serial])
		if want := []string{"", sent}[build]; gift != want {
			s.problem("%s of build %d stores the gift of %s in %s: want %q, got %q", call.process, build, serial, name, want, gift)
		}
		if by, ok := was.by[serial]; ok && sent != "" {
			s.count(fmt.Sprintf("fields: events with an unknown key that the %s build deferred and the %s one applied", buildNames[by], buildNames[build]), 1)
		} else if build == 0 && sent != "" {
			s.count("fields: events whose unknown key the old build ignored", 1)
		}
	}
	now.by = map[string]int{}
	for serial, event := range now.deferred {
		if now.by[serial] = build; was.deferred[serial] != nil {
			now.by[serial] = was.by[serial]
		}
		if !equalJSON(event, withoutID(s.plan.sent[serial])) {
			s.problem("%s stores the deferred event %s of %s: want %s", call.process, event, name, withoutID(s.plan.sent[serial]))
		}
	}
	if now.last, now.builds = build, was.builds; len(was.builds) > 0 && was.last != build {
		s.count(fmt.Sprintf("fields: instances that the %s build continued", buildNames[build]), 1)
	}
	for len(now.builds) < len(record.History) {
		now.builds = append(now.builds, build)
	}
	s.ledger.shelved[name] = now
}

var buildNames = []string{"old", "new"}

// giftIn returns the gift of a sent event; empty if it has none, or a malformed one.
func giftIn(body string) string {
	var event struct{ Gift any }
	_ = json.Unmarshal([]byte(body), &event) // without an event, there is no gift
	gift, _ := event.Gift.(string)
	return gift
}

// withoutID returns an event without its ID.
func withoutID(body string) json.RawMessage {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal([]byte(body), &keys) // for an invalid body, the result is null, which equals no event
	delete(keys, "$id")
	text, _ := json.Marshal(keys)
	return text
}

// switchBuild makes the model continue with the build that took the next step. If a message was parked, that is the new
// build, which accepts fewer events.
func (r *replay) switchBuild(isParked bool) error {
	versions := r.simulation.versions[r.machine.ID()]
	if r.machine.ID() != fieldsMachine {
		return nil
	}
	machine := r.machine
	r.simulation.ledger.mu.Lock()
	if builds := r.simulation.ledger.shelved[r.name].builds; isParked {
		machine = versions[1]
	} else if r.at < len(builds) {
		machine = versions[builds[r.at]]
	}
	r.simulation.ledger.mu.Unlock()
	if r.instance != nil && machine != r.machine {
		instance, err := machine.Restore(r.snapshot())
		if err != nil {
			return differ("the build of step %d cannot read the instance: %v", r.at, err)
		}
		r.instance = limited(instance)
	}
	r.machine = machine
	return nil
}

// phase says which deployments are under way. A deployment takes a minute.
func (s *simulation) phase() string {
	begun, complete := s.deployments(0, time.Now()), s.deployments(time.Minute, time.Now())
	switch {
	case begun > complete+1:
		return "while a roll-out and a roll-back overlapped"
	case begun == complete:
		return fmt.Sprintf("after deployment %d", begun)
	default:
		return fmt.Sprintf("during deployment %d", begun)
	}
}

// unknownKey matches the key in the error of a build that cannot read an instance.
var unknownKey = regexp.MustCompile(`unknown key "([a-z]+)`)

// countUnreadable counts an instance that a build could not read because of a key.
func (s *simulation) countUnreadable(reason string) {
	if found := unknownKey.FindStringSubmatch(reason); found != nil && strings.Contains(reason, "chart "+fieldsMachine+":") {
		s.count("fields: tries of the old build that met an unknown key in "+found[1], 1)
		s.count("fields: tries of the old build that met an unknown key "+s.phase(), 1)
	}
}

// countFields counts the gifts that are stored at the end of a run.
func (s *simulation) countFields() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for shelf := range maps.Values(s.ledger.shelved) {
		for _, gift := range shelf.gifts {
			if gift != "" {
				s.count("fields: gifts at the end", 1)
			}
		}
	}
}
