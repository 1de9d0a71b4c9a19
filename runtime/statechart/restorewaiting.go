package statechart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (c *chart) restoreTimers(form *snapshotJSON, s *bareSnapshot) error {
	for _, id := range sortedIDs(form.Timers) {
		stored := form.Timers[id]
		if err := c.checkID(id, s); err != nil {
			return err
		}
		if stored.Event != nil {
			typ, err := typeOf(stored.Event) // consume decodes the rest.
			if err != nil {
				return c.unreadable("timer %s: its event: %w", id, err)
			}
			if stored.State != "" || stored.After != typ {
				return c.unreadable("timer %s of the event %q belongs to %q after %q, not to the chart", id, typ, stored.State, stored.After)
			}
			s.Timers = append(s.Timers, Timer{ID: id, After: stored.After, At: stored.At.UTC(), Event: stored.Event, Send: stored.Send, state: -1})
			continue
		}
		state, ok := c.byPath[stored.State]
		if !ok || !c.isActive(state, &s.configuration) {
			return c.unreadable("timer %s belongs to the state %q, which is not active", id, stored.State)
		}
		index := slices.IndexFunc(c.nodes[state].timers, func(d delay) bool { return d.id == stored.After })
		if index < 0 {
			return c.unmatched(fmt.Sprintf("RenameTimer(%q, %q, ...) or DropTimer(%[1]q, %[2]q)", stored.State, stored.After),
				"timer %s belongs to %q after %q, which is not a timer of that state in this version", id, stored.State, stored.After)
		}
		if slices.ContainsFunc(s.Timers, func(t Timer) bool { return t.state == state && t.index == index }) {
			return c.unreadable("state %q has its timer %q twice", stored.State, stored.After)
		}
		if !storable(stored.At.UTC()) {
			return c.unreadable("timer %s: expected a deadline in the years 0 to 9999, got %v", id, stored.At.UTC())
		}
		s.Timers = append(s.Timers, Timer{ID: id, State: stored.State, After: stored.After, At: stored.At.UTC(), state: state, index: index})
	}
	return nil
}

func (c *chart) restoreServices(form *snapshotJSON, s *bareSnapshot) error {
	for _, key := range sortedIDs(form.Services) {
		stored := form.Services[key]
		if err := c.checkID(key, s); err != nil {
			return err
		}
		state, ok := c.byPath[stored.State]
		if !ok || !c.isActive(state, &s.configuration) {
			return c.unreadable("service %q belongs to the state %q, which is not active", stored.ID, stored.State)
		}
		index := slices.IndexFunc(c.nodes[state].invokes, func(i invocation) bool { return i.id == stored.ID })
		if index < 0 || c.nodes[state].invokes[index].service != stored.Service {
			return c.otherService(&c.nodes[state], index, stored)
		}
		if slices.ContainsFunc(s.Services, func(i Invocation) bool { return i.state == state && i.index == index }) {
			return c.unreadable("state %q has its service %q twice", stored.State, stored.ID)
		}
		s.Services = append(s.Services, Invocation{
			ID: stored.ID, Key: key, State: stored.State, Attempt: stored.Attempt, RetryAt: stored.RetryAt,
			Service: c.nodes[state].invokes[index].service, state: state, index: index,
		})
	}
	return nil
}

// otherService returns the error for a stored service that the state does not have. `index` is the position of the
// service that has the ID in this version, or -1.
func (c *chart) otherService(n *node, index int, stored serviceJSON) error {
	to := "..."
	for _, declared := range n.invokes {
		if declared.service == stored.Service {
			to = strconv.Quote(declared.id)
			break
		}
	}
	change := fmt.Sprintf("RenameService(%q, %q, %s) before any change to %[2]q if the service has another ID now", stored.State, stored.ID, to)
	if index < 0 {
		return c.unmatched(change, "the stored service %q has the ID %q, which no service of state %q has in this version", stored.Service, stored.ID, stored.State)
	}
	other := n.invokes[index].service
	return c.unmatched(fmt.Sprintf("%s, ReplaceService(%q, %q, %q) if it continues as another service", change, stored.State, stored.ID, other),
		"the stored service %q has the ID %q, which is the ID of the service %q of state %q in this version", stored.Service, stored.ID, other, stored.State)
}

// checkID checks that one of the snapshot's steps derived the ID. Otherwise a later step could derive it again.
func (c *chart) checkID(id string, s *bareSnapshot) error {
	step, position := splitID(id)
	if step < 1 || step > s.Steps || position < 0 || id != derivedID(step, position) {
		return c.unreadable("expected an ID that one of %d steps derived, such as 1.0, got %q", s.Steps, id)
	}
	return nil
}

// splitID returns the two numbers of a derived ID. An invalid number is -1.
func splitID(id string) (step, position int64) {
	number := func(text string) int64 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return -1
	}
	before, after, _ := strings.Cut(id, ".")
	return number(before), number(after)
}

// sortedIDs returns the IDs in the order of their derivation: by step, then position.
func sortedIDs[V any](m map[string]V) []string {
	ids := sortedKeys(m)
	slices.SortStableFunc(ids, func(a, b string) int {
		aStep, aPosition := splitID(a)
		bStep, bPosition := splitID(b)
		return cmp.Or(cmp.Compare(aStep, bStep), cmp.Compare(aPosition, bPosition))
	})
	return ids
}
