package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// placeFlags choose instances by where they are.
type placeFlags struct {
	Machine string `help:"Only instances of this machine."`
	State   string `help:"Only instances in this state, or in one inside it: unverified, unverified.registering."`
	Tag     string `help:"Only instances with this tag."`
}

// filterFlags choose instances.
type filterFlags struct {
	placeFlags
	Status string `enum:"active,done,stopped,any" default:"any" help:"Only instances with this status: active, done, stopped or any."`
}

// filter checks the flags by the machines and returns what they choose.
func (f placeFlags) filter(s *session, known *durable.Machines) (dynamostore.Filter, error) {
	filter := dynamostore.Filter{Machine: f.Machine, State: f.State, Tag: f.Tag}
	if f.Machine == "" {
		return filter, nil
	}
	if _, err := known.Lookup(f.Machine); err != nil {
		return filter, err
	}
	// A state that no version of the machine has is a slip, if its states are known.
	if states := known.States(f.Machine); f.State != "" && len(states) > 0 && !slices.Contains(states, f.State) {
		return filter, fmt.Errorf("%w: machine %s has no state %q: expected one of %s", errNotFound, f.Machine, f.State, strings.Join(states, ", "))
	}
	// So is a tag.
	if tags, told := s.tags(f.Machine); f.Tag != "" && told && !slices.Contains(tags, f.Tag) {
		return filter, fmt.Errorf("%w: machine %s has no tag %q: expected one of %s", errNotFound, f.Machine, f.Tag, strings.Join(tags, ", "))
	}
	return filter, nil
}

// strange says which state or tag that was asked for without a machine none of the hosted machines has; empty if there is none, or
// if one of them does not tell. It is no mistake: there may be instances of machines that are not hosted here.
func (f placeFlags) strange(s *session, known *durable.Machines) string {
	var states, tags []string
	for _, id := range known.IDs() {
		itsTags, told := s.tags(id)
		itsStates := known.States(id)
		if !told || itsStates == nil {
			return ""
		}
		tags, states = append(tags, itsTags...), append(states, itsStates...)
	}
	switch {
	case f.Machine != "":
		return ""
	case f.State != "" && !slices.Contains(states, f.State):
		return fmt.Sprintf("state %q", f.State)
	case f.Tag != "" && !slices.Contains(tags, f.Tag):
		return fmt.Sprintf("tag %q", f.Tag)
	default:
		return ""
	}
}

// choose returns the machines, what the flags choose, and the table to look for it in.
func (f filterFlags) choose(ctx context.Context, s *session, table tableFlags) (*durable.Machines, dynamostore.Filter, *dynamostore.Store, error) {
	known, err := s.machines()
	if err != nil {
		return nil, dynamostore.Filter{}, nil, err
	}
	filter, err := f.filter(s, known)
	if err != nil {
		return nil, dynamostore.Filter{}, nil, err
	}
	if f.Status != "any" {
		filter.Status = statechart.Status(f.Status)
	}
	store, err := table.store(ctx, s)
	return known, filter, store, err
}
