package simulate_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// This file finds the order in which the sequential model takes the messages of several queues.

// linearize tries the remaining messages in every order that the queues allow, until one order agrees with the history.
// Its error shows where the longest attempt differs from the history.
func (r *replay) linearize() (*replay, error) {
	var choices []choice
	if r.at < len(r.record.History) && r.record.History[r.at].Event == replayed {
		choices = append(choices, choice{replayed: true})
	}
	if r.isOperators() {
		choices = append(choices, choice{operated: true})
		if r.mayMigrateLater() {
			choices = append(choices, choice{operated: true, unmigrated: true})
		}
	}
	for i, queue := range r.queues {
		if len(queue) > 0 {
			undone := r.simulation.ledger.isUndone(r.name, queue[0])
			skips := undone || r.isOvertaken(queue[0])
			abandoned := skips || r.simulation.ledger.passesOver(queue[0], r.messages)
			if !skips {
				choices = append(choices, choice{queue: i})
			}
			if r.instance == nil && (len(r.queues) > 1 || abandoned || r.simulation.plan.operators) && r.beganWith(queue[0]) {
				choices = append(choices, choice{queue: i, begins: true})
			}
			if r.mayMigrateLater() {
				choices = append(choices, choice{queue: i, unmigrated: true})
			}
			if !skips && r.migrated > 0 && r.machine.Version() != newVersion {
				choices = append(choices, choice{queue: i, busy: true})
			}
			if r.instance == nil && r.machine.ID() == fieldsMachine && len(r.parked(queue[0])) > 0 {
				choices = append(choices, choice{queue: i, late: true})
			}
			if abandoned {
				choices = append(choices, choice{queue: i, abandoned: true})
			}
			if skips {
				continue
			}
			if strings.Contains(queue[0].body, `"settle.execution"`) && r.mayTell(queue[0], flowEnded) {
				choices = append(choices, choice{queue: i, looked: true})
			}
			if strings.Contains(queue[0].body, `"settle.alias.taken"`) && r.mayTell(queue[0], durable.AliasTaken) {
				choices = append(choices, choice{queue: i, taken: true})
			}
			if r.isScheduledAgain(queue[0]) {
				choices = append(choices, choice{queue: i, postponed: true})
			}
			if r.mayHaveForgotten(queue[0]) {
				choices = append(choices, choice{queue: i, again: true})
			}
			tells := r.mayTell(queue[0], durable.TokenExpired) || len(r.parked(queue[0])) > 0
			if tells && strings.Contains(queue[0].body, `"settle.token`) {
				choices = append(choices, choice{queue: i, expired: true})
			}
		}
	}
	if len(choices) == 0 {
		return r, r.finish()
	}
	if len(choices) == 1 {
		return r.follow(choices[0])
	}
	position := r.position()
	if r.tried.deadEnds[position] {
		return r.tried.furthest, r.tried.failure
	}
	if len(r.tried.deadEnds) >= deadEndsMax {
		return r, fmt.Errorf("%w; the longest attempt differs after %d steps: %w", errTooManyOrders, r.tried.furthest.at, r.tried.failure)
	}
	for _, c := range choices {
		next, err := r.clone().follow(c)
		if err == nil || errors.Is(err, errTooManyOrders) {
			return next, err
		}
		if r.tried.furthest == nil || next.at > r.tried.furthest.at {
			r.tried.furthest, r.tried.failure = next, err
		}
	}
	r.tried.deadEnds[position] = true
	return r.tried.furthest, r.tried.failure
}

// mayTell reports whether a message of the runtime may have caused the next step of the history, judging by the
// message's times.
func (r *replay) mayTell(message accepted, event string) bool {
	if r.at == len(r.record.History) || r.record.History[r.at].Event != event {
		return false
	}
	at := r.record.History[r.at].At
	sent, err := strconv.ParseInt(message.sent, 10, 64)
	return err != nil || !at.Before(time.UnixMilli(sent).Add(-clockSkewMax)) && at.Before(message.delivered.Add(turnMax))
}

// turnMax is longer than any turn, including a turn of a process that freezes.
const turnMax = 10 * time.Minute

// deadEndsMax limits the number of positions that the model tries for one instance.
const deadEndsMax = 500_000

var errTooManyOrders = fmt.Errorf("the model tried %d orders of the messages, and none agrees with the history", deadEndsMax)

// tried holds the results of all attempts for one instance.
type tried struct {
	// deadEnds holds the positions without a continuation.
	deadEnds map[uint64]bool
	// furthest is the attempt that agrees with the longest part of the history, and `failure` is its difference.
	furthest *replay
	failure  error
}

// choice is one continuation from a position.
type choice struct {
	queue int
	// expired means that the instance learnt of a token's expiry from this message. The history does not name the
	// message.
	expired bool
	// begins means that the message started the instance but was applied later. A process stored the instance and died
	// before it applied the message. A message of another queue, or an operator's change, came first.
	begins bool
	// abandoned means that the queue gave up on the message, or another copy of it, before it was applied.
	abandoned bool
	// looked means that the instance learnt from this message that an execution had ended.
	looked bool
	// taken means that another instance had the alias when the message was applied.
	taken bool
	// postponed means that the message was not applied, but scheduled again.
	postponed bool
	// `again` means that the message is a duplicate that the instance does not recognise.
	again bool
	// late means that a frozen process of the old build applied a message that the new build had parked. As long as the
	// instance has no item, no conditional write stops that process.
	late bool
	// busy means that the instance takes further steps without a message on the old version, before its migration. In
	// the same states, the new version would wait for events.
	busy bool
	// unmigrated means that the instance is migrated later.
	unmigrated bool
	// operated means that an operator changes the instance before the next message.
	operated bool
	// replayed means that the consumer replays deferred events before the next message. Duplicates may come before the
	// replay.
	replayed bool
}

// follow makes one choice, and continues from there.
func (r *replay) follow(c choice) (_ *replay, err error) {
	r.expired, r.looked, r.taken, r.again, r.unmigrated, r.late, r.busy = c.expired, c.looked, c.taken, c.again, c.unmigrated, c.late, c.busy
	if c.operated {
		if err = r.operate(); err == nil {
			err = r.settle()
		}
		if err != nil {
			return r, err
		}
		return r.linearize()
	}
	if c.replayed {
		if err := r.replayDeferred(); err != nil {
			return r, err
		}
		return r.linearize()
	}
	message := r.queues[c.queue][0]
	switch {
	case c.begins:
		if err = r.startWith(message); err == nil {
			err = r.settle()
		}
	case c.postponed:
		r.queues[c.queue] = r.queues[c.queue][1:]
	case c.abandoned:
		r.queues[c.queue] = r.queues[c.queue][1:]
		r.abandonTask(message)
	default:
		r.queues[c.queue] = r.queues[c.queue][1:]
		err = r.consume(message)
	}
	if err != nil {
		return r, fmt.Errorf("message %s %s: %w", message.sequence, message.body, err)
	}
	return r.linearize()
}

// position is a digest of everything that determines the possible choices. Many orders of two queues lead to the same
// position.
func (r *replay) position() uint64 {
	left, seen := 0, maps.Clone(r.seen)
	for _, message := range r.messages {
		delete(seen, message.place())
	}
	for _, queue := range r.queues {
		left = left*1000 + len(queue)
		for _, message := range queue { // A place matters only for a copy that may still come.
			if place := message.place(); r.seen[place] {
				seen[place] = true
			}
		}
	}
	var snapshot json.RawMessage
	if r.instance != nil {
		snapshot = r.snapshot()
	}
	return digestOf(fmt.Sprint(left, r.at, r.startedAt, r.machine.Version(), string(snapshot), r.began, r.failed, seen, r.sends, r.tokens, r.awaited, r.asked, r.aliases, r.failures, r.spawned))
}

// clone returns a copy that can make other choices.
func (r *replay) clone() *replay {
	c := *r
	c.queues, c.seen, c.sends, c.tokens = slices.Clone(r.queues), maps.Clone(r.seen), maps.Clone(r.sends), maps.Clone(r.tokens)
	c.recent = slices.Clip(r.recent)
	c.failures, c.aliases = maps.Clone(r.failures), maps.Clone(r.aliases)
	c.awaited, c.asked = maps.Clone(r.awaited), maps.Clone(r.asked)
	c.spawned, c.left = maps.Clone(r.spawned), maps.Clone(r.left)
	if r.instance != nil {
		c.instance = r.restored(r.snapshot())
	}
	return &c
}

func (r *replay) snapshot() json.RawMessage {
	snapshot, err := r.instance.Snapshot()
	if err != nil {
		panic(err)
	}
	return snapshot
}

func (r *replay) restored(snapshot json.RawMessage) durable.Instance {
	instance, err := r.machine.Restore(snapshot)
	if err != nil {
		panic(err)
	}
	return limited(instance)
}

// limited sets the same limit on the instance's snapshots as the loop does.
func limited(instance durable.Instance) durable.Instance {
	instance.(interface{ Limit(int) }).Limit(snapshotBytesMax)
	return instance
}

// play calls linearize for each possible start time of the instance. Several processes may have started the instance,
// and the history does not say which start was stored.
func (r *replay) play() (end *replay, err error) {
	beginnings := r.simulation.lab.beginningsOf(r.name)
	for _, at := range beginnings {
		next := r.clone()
		next.startedAt = at
		if end, err = next.linearize(); err == nil {
			return end, nil
		}
	}
	if len(beginnings) == 0 {
		return r.linearize()
	}
	return end, err
}

const (
	// recentMax is how many events an instance remembers by default. Up to recentSlack of them may be places that the
	// model does not know. The instance remembers an event without an ID by its place if the instance's first commit
	// applies the event.
	recentMax   = 50
	recentSlack = 10
)

// remember records that a message was applied.
func (r *replay) remember(id string, message accepted) {
	r.seen[message.place()] = true
	switch {
	case id != "":
		r.seen[id] = true
		r.recent = append(r.recent, id)
	case message.from != "":
		r.recent = append(r.recent, message.place())
	}
}

// mayHaveForgotten reports whether a message duplicates an event that was applied so long ago that the instance may not
// recognise the message. Sends of instances are always recognised, except if an operator resent them.
func (r *replay) mayHaveForgotten(message accepted) bool {
	id := cmp.Or(message.head().ID, message.place())
	if message.isSend() && !message.redriven || !r.seen[id] {
		return false
	}
	known := r.recent[max(0, len(r.recent)-recentMax+recentSlack):]
	return slices.Contains(r.recent, id) && !slices.Contains(known, id)
}
