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

// placeFlags choose instances by machine, state and tag.
type placeFlags struct {
	Machine string `help:"Only instances of this machine."`
	State   string `help:"Only instances in this state, or in one inside it: unverified, unverified.registering."`
	Tag     string `help:"Only instances with this tag."`
}

type filterFlags struct {
	placeFlags
	Status string `enum:"active,done,stopped,any" default:"any" help:"Only instances with this status: active, done, stopped or any."`
}

// filter validates the flags against the machines and returns the filter.
func (f placeFlags) filter(s *session, known *durable.Machines) (dynamostore.Filter, error) {
	filter := dynamostore.Filter{Machine: f.Machine, State: f.State, Tag: f.Tag}
	if f.Machine == "" {
		return filter, nil
	}
	if _, err := known.Lookup(f.Machine); err != nil {
		return filter, err
	}
	// A state that no version of the machine has is a typo, if the states are known.
	if states := known.States(f.Machine); f.State != "" && len(states) > 0 && !slices.Contains(states, f.State) {
		return filter, fmt.Errorf("%w: machine %s has no state %q: expected one of %s", errNotFound, f.Machine, f.State, strings.Join(states, ", "))
	}
	// So is a tag.
	if tags, listed := s.tags(f.Machine); f.Tag != "" && listed && !slices.Contains(tags, f.Tag) {
		return filter, fmt.Errorf("%w: machine %s has no tag %q: expected one of %s", errNotFound, f.Machine, f.Tag, strings.Join(tags, ", "))
	}
	return filter, nil
}

// unknownPlace returns the state or tag that none of the hosted machines has, if no machine was given. It returns "" if
// every value is known or if a machine does not list its states and tags. It is not an error: the table may have
// instances of machines that are not hosted here.
func (f placeFlags) unknownPlace(s *session, known *durable.Machines) string {
	var states, tags []string
	for _, id := range known.IDs() {
		itsTags, listed := s.tags(id)
		itsStates := known.States(id)
		if !listed || itsStates == nil {
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

// choose returns the machines, the filter, and the store of the table.
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
