package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

// Condition is a condition that an instance can reach: Settled, Done or a tag of the machine.
type Condition string

const (
	// Settled holds for an instance that waits for an event or a timer, or has ended.
	Settled Condition = "settled"
	// Done holds for an instance that has reached a final state.
	Done Condition = "done"
)

var (
	// ErrCondition is returned by CheckCondition for a tag that the machine does not have.
	ErrCondition = errors.New("no tag")
	// ErrParked matches, with errors.Is, the ParkedError that Await returns if the event was parked.
	ErrParked = errors.New("the event was parked")
	// ErrUnreachable is returned by Await if the instance ended without reaching the condition.
	ErrUnreachable = errors.New("ended without it")
)

// ParkedError is returned by Await if the event was parked.
type ParkedError struct {
	// Reason may quote the event.
	Reason string
}

// Error contains the reason.
func (e *ParkedError) Error() string { return ErrParked.Error() + ": " + e.Reason }

// Is reports whether the target is ErrParked.
func (e *ParkedError) Is(target error) bool { return target == ErrParked }

// The interval of polls starts at PollFirst and grows to PollMax.
const (
	PollFirst = 100 * time.Millisecond
	PollMax   = 2 * time.Second
)

// NextPoll returns the pause after a poll, given the pause before it.
func NextPoll(pause time.Duration) time.Duration { return min(pause*3/2, PollMax) }

// Poll is one read of an instance during a wait.
type Poll struct {
	Record instances.Record
	// Applied reports whether the event has been applied, ignored or parked.
	Applied bool
	// Waited is the sum of the pauses so far. Pause is the next pause.
	Waited, Pause time.Duration
}

// Outcome is the state of an instance after a wait.
type Outcome struct {
	Record instances.Record
	View   instanceview.Instance
	// Ignored is set if Await knows that the event was ignored.
	Ignored bool
}

// CheckCondition fails with durable.ErrUnknownMachine, or with ErrCondition if no hosted version of the machine has the tag.
func CheckCondition(machines *durable.Machines, machine string, until Condition) error {
	if _, err := machines.Lookup(machine); err != nil {
		return err
	}
	var tags []string
	for _, version := range machines.Versions(machine) {
		tags = append(tags, version.Describe().Tags...)
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if until == Settled || until == Done || slices.Contains(tags, string(until)) {
		return nil
	}
	expected := []string{string(Settled), string(Done)}
	for _, tag := range tags {
		if tag != statechart.Settled {
			expected = append(expected, tag)
		}
	}
	return fmt.Errorf("machine %s has %w %q: expected one of %s", machine, ErrCondition, until, strings.Join(expected, ", "))
}

// Await polls until the instance has applied the event that SendWatched queued and has reached the condition. Each poll
// is a consistent read. Unless `each` is nil, Await calls it after every poll that does not end the wait. If `each`
// returns an error, the wait ends.
//
// Await fails with ErrParked or ErrUnreachable, with the error of the context, or with an error of the store. An event
// that was parked before its instance existed leaves no trace in the store. Then Await waits until the context ends. If
// sent.Type is empty, Await waits only for the condition.
func (p *Producer) Await(ctx context.Context, sent Sent, until Condition, each func(context.Context, Poll) error) (Outcome, error) {
	poll := Poll{Pause: PollFirst}
	for {
		var err error
		if poll.Record, err = p.store.Load(ctx, sent.Message.To); err != nil {
			return Outcome{Record: poll.Record}, err
		}
		outcome := Outcome{Record: poll.Record}
		poll.Applied = poll.Record.Revision > 0 && (sent.Type == "" || sent.isApplied(poll.Record))
		if poll.Applied {
			if outcome.View, err = instanceview.Of(p.machines, poll.Record); err != nil {
				return outcome, err
			}
			outcome.Ignored = sent.isIgnored(poll.Record)
			if reached, err := sent.reached(outcome, until); reached || err != nil {
				return outcome, err
			}
		}
		if each != nil {
			if err := each(ctx, poll); err != nil {
				return outcome, err
			}
		}
		if err := sleep(ctx, poll.Pause); err != nil {
			return outcome, err
		}
		poll.Waited += poll.Pause
		poll.Pause = NextPoll(poll.Pause)
	}
}

// Wait is Await without an event: it polls until the instance reaches the condition. It returns at once if the condition
// holds already.
func (p *Producer) Wait(ctx context.Context, id instances.ID, until Condition, each func(context.Context, Poll) error) (Outcome, error) {
	return p.Await(ctx, Sent{Event: Event{Message: durable.Message{To: id}}}, until, each)
}

// sleep pauses. If the context ends first, sleep returns the error of the context.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// isApplied reports whether the event was applied, ignored or parked. For a duplicate, only its ID shows this: the
// instance remembers the ID from the first delivery.
func (s Sent) isApplied(record instances.Record) bool {
	applied, sent := record.Watermark[s.Place.Queue], s.Place.SequenceNumber
	return sent != "" && cmp.Or(cmp.Compare(len(applied), len(sent)), cmp.Compare(applied, sent)) >= 0 ||
		s.ID != "" && durable.Remembers(record, s.ID, s.Message.Body)
}

// isIgnored reports whether the applied event is known to have been ignored. For this, the history since the send must
// be complete, and all events of the same type in it must have been ignored.
func (s Sent) isIgnored(record instances.Record) bool {
	if s.Type == "" || s.ID != "" && durable.Remembers(s.before, s.ID, s.Message.Body) {
		return false
	}
	transitions, missed := instances.NewTransitions(s.before.History, record.History)
	ignored := false
	for _, transition := range transitions {
		if transition.Event == s.Type {
			if !transition.Ignored {
				return false
			}
			ignored = true
		}
	}
	return ignored && !missed
}

// reached reports whether the instance has reached the condition. It fails if the event was parked, or if the instance
// has ended without reaching the condition.
func (s Sent) reached(outcome Outcome, until Condition) (bool, error) {
	record := outcome.Record
	isWatched := s.Place.Queue != ""
	if f := record.Error; isWatched && f != nil && (s.before.Error == nil || *f != *s.before.Error) && (f.Event == s.Type || f.Event == "") {
		return false, &ParkedError{Reason: f.Message}
	}
	switch {
	case until == Settled:
		return outcome.View.Settled, nil
	case until == Done && record.Status == statechart.Done:
		return true, nil
	case until != Done && slices.Contains(outcome.View.Tags, string(until)):
		return true, nil
	case record.Status != statechart.Active:
		said := ""
		if outcome.Ignored {
			said = " (the event was ignored)"
		}
		return false, fmt.Errorf("waited for %s, but %s %w: it is %s in %s%s", until, record.Instance, ErrUnreachable, record.Status, strings.Join(record.State, ", "), said)
	default:
		return false, nil
	}
}
