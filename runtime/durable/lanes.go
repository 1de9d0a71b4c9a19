package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// A lane is a FIFO queue with a consumer of its own. Each instance has one lane, whose consumer applies its events. A
// consumer forwards a delivery whose instance has another lane. Like parking, forwarding is a decision that the turn
// first stores as an effect. So a stale process cannot forward an event that another process has applied.
//
// A move to another lane ends with a message that passes through the old lane, behind everything that was sent there
// before. Until then, the new lane holds its messages. So the messages of a sender that keeps its route stay in order.

// placement is where a delivery is, in relation to the lane of its instance.
type placement int

const (
	// atHome is a delivery from the instance's lane, or for a new instance.
	atHome placement = iota
	// early is a new delivery from the lane to which the instance is moving.
	early
	// astray is a new delivery from any other lane.
	astray
)

// placementOf returns the placement of a delivery. If a deployment removed the instance's lane, every lane is home.
func (t *turn) placementOf(d Delivery) placement {
	record, lane := &t.draft.Record, t.loop.laneOf(d.Queue)
	home := record.HomeLane()
	switch {
	case t.draft.Instance == nil || lane == home || !t.loop.hasLane(home) || t.isApplied(d) || t.isForwarded(d):
		return atHome
	case record.Moving != nil && record.Moving.Lane == lane && !isLaneChange(d):
		return early
	default:
		return astray
	}
}

// fromOtherLane forwards or holds a delivery from another lane. It returns false and nil for a delivery from the
// instance's own lane.
func (t *turn) fromOtherLane(d Delivery) (done bool, err error) {
	switch t.placementOf(d) {
	case astray:
		return true, t.forward(d)
	case early:
		return false, t.holdEarly(d)
	default:
		return false, nil
	}
}

// laneOf returns the lane of a queue.
func (l *Loop) laneOf(queue string) string {
	for lane, arn := range l.config.Lanes {
		if arn == queue {
			return lane
		}
	}
	return instances.MainLane
}

// hasLane reports whether a queue has the lane.
func (l *Loop) hasLane(lane string) bool {
	return lane == instances.MainLane || l.config.Lanes[lane] != ""
}

// ownLane returns the instance's lane for Message.Lane. It returns "" if there are no lanes, or if a deployment has
// removed the lane.
func (t *turn) ownLane() string {
	if lane := t.draft.Record.HomeLane(); len(t.loop.config.Lanes) > 0 && t.loop.hasLane(lane) {
		return lane
	}
	return ""
}

// joinLane gives a new instance the lane of its first event.
func (t *turn) joinLane(d Delivery) {
	t.draft.Record.SetLane(t.loop.laneOf(d.Queue))
}

// forward decides to forward a delivery that is astray: to the lane of the instance, or to the lane to which the instance
// is moving.
func (t *turn) forward(d Delivery) error {
	place, err := json.Marshal(d.place())
	if err != nil {
		return err
	}
	lane := t.draft.Record.HomeLane()
	if moving := t.draft.Record.Moving; moving != nil && t.loop.hasLane(moving.Lane) && !isLaneChange(d) {
		lane = moving.Lane
	}
	t.owe(statechart.Effect{ID: "forward." + keyOf(d.place()), Kind: forwardDelivery, Event: place, Name: lane})
	t.pass(d)
	return nil
}

// isLaneChange reports whether the delivery is the message that ends a move. Only the instance's own lane may apply
// this message, but a redrive may bring it elsewhere. The new lane would hold it until the move ends, and so forever.
func isLaneChange(d Delivery) bool { return eventHead(json.RawMessage(d.Body)).Type == laneEvent }

// forwardDelivery forwards a delivery after the commit that stored this decision.
func (t *turn) forwardDelivery(ctx context.Context, effect statechart.Effect) error {
	return t.withDelivery(ctx, effect, func(d Delivery) error {
		if d.ReceiveCount > 1 && d.ParkedFrom == (instances.Place{}) {
			d.ParkedFrom = d.place() // Another process may have parked it before the instance existed. A redrive is then a duplicate.
		}
		err := t.loop.ports.Queue.Forward(ctx, d, effect.Name)
		if errors.Is(err, ErrRefused) {
			return t.loop.park(ctx, d, fmt.Errorf("forwarding it to the lane %s: %w", effect.Name, err), t.stored.Record.Tokens...)
		}
		if err != nil {
			return fmt.Errorf("forwarding message %s of %s to the lane %s: %w", d.MessageID, d.Group, effect.Name, err)
		}
		return nil
	})
}

// isForwarded reports whether another copy of a forwarded message was applied, parked or forwarded again. The messages
// of a queue are forwarded in their order, so the sequence number of the last one shows this.
func (t *turn) isForwarded(d Delivery) bool {
	from := d.Forwarding.From
	return from != (instances.Place{}) && instances.CompareSequence(from.SequenceNumber, t.draft.Record.Forwarded[from.Queue]) <= 0
}

// earlyWaitMax is the longest wait between two receives of a message that waits for the end of a move. With it, a
// message reaches 1000 receives, the maxReceiveCount, only after almost 14 days, and SQS keeps a message for 14 days.
const earlyWaitMax = 20 * time.Minute

// holdEarly returns the error that holds a delivery until the move to its lane ends. The wait doubles. So after the end of
// the move, a delivery waits at most as long as the move took.
func (t *turn) holdEarly(d Delivery) error {
	record := &t.draft.Record
	return &retryError{
		wait: doubling(time.Second, earlyWaitMax, d.ReceiveCount-1),
		err:  fmt.Errorf("%s is moving from the lane %s to %s", record.Instance, record.HomeLane(), record.Moving.Lane),
	}
}

// beginLaneMove drafts the start of a move. It refuses a move while another is under way: messages that wait in the
// second lane would have to go to a third, which may already hold later messages.
func (t *turn) beginLaneMove(op instances.Operation) error {
	record := &t.draft.Record
	if !instances.IsLane(op.Lane) {
		return fmt.Errorf("expected the name of a lane (%s), got %q", instances.LaneForm, op.Lane)
	}
	switch {
	case record.Moving != nil && record.Moving.Lane == op.Lane:
		t.askLaneChange() // The first message may be lost, so a repeated command asks for another.
	case record.Moving != nil:
		return fmt.Errorf("%w: it is moving to the lane %s: wait until the lane %s has applied its events", instances.ErrInUse, record.Moving.Lane, record.HomeLane())
	case op.Lane != record.HomeLane():
		record.Moving = &instances.LaneMove{Lane: op.Lane, Number: record.Revision + 1}
		t.askLaneChange()
	}
	t.addOperation(op, record.State, record.State)
	return nil
}

// askLaneChange asks for the message that ends the move.
func (t *turn) askLaneChange() {
	t.owe(statechart.Effect{ID: "lane." + strconv.FormatInt(t.stored.Record.Revision+1, 10), Kind: endLaneMove})
}

// laneChange is the body of the message that ends a move.
type laneChange struct {
	Type        string `json:"type"`
	Incarnation int64  `json:"$incarnation"`
	Number      int64  `json:"number"`
}

// sendLaneChange sends the message that ends the move. The message goes to the instance's present lane, after all
// messages that are still to be forwarded there.
func (t *turn) sendLaneChange(ctx context.Context, effect statechart.Effect) error {
	moving := t.stored.Record.Moving
	if moving == nil {
		return nil
	}
	for _, earlier := range t.stored.Record.Outbox {
		if earlier.ID == effect.ID {
			break
		}
		if earlier.Kind != forwardDelivery {
			continue
		}
		if err := t.withDelivery(ctx, earlier, func(Delivery) error { return nil }); err != nil {
			return err
		}
	}
	message, err := t.message(t.stored.Record.Instance, laneChange{laneEvent, t.incarnation(), moving.Number}, t.derivedID(effect.ID))
	if err == nil {
		_, err = t.loop.ports.Queue.Send(ctx, message)
	}
	return err
}

// changeLane ends the move that has the form's number. It ignores a late copy of the message for an earlier move. The
// instance stays in its lane if no queue has the new lane.
func (t *turn) changeLane(ctx context.Context, form laneChange) error {
	record := &t.draft.Record
	moving := record.Moving
	if moving == nil || moving.Number != form.Number {
		return nil
	}
	if record.Moving = nil; t.loop.hasLane(moving.Lane) {
		record.SetLane(moving.Lane)
	} else {
		t.loop.config.Logger.ErrorContext(ctx, "no queue has the new lane, the instance stays in its lane", "instance", record.Instance.String(), "lane", record.HomeLane(), "new_lane", moving.Lane)
	}
	t.changed()
	return nil
}

// againLaneChange skips a message that should end a move but cannot be applied, and asks for another.
func (t *turn) againLaneChange(d Delivery) {
	if t.draft.Record.Moving != nil {
		t.askLaneChange()
	}
	t.pass(d)
}
