package simulate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
)

// In which order the sequential model takes the messages of several queues.

// linearize goes through the messages that are left, in every order that the queues allow, until one
// agrees with the history. Its error says where history and model differ on the way that came furthest.
func (r *replay) linearize() (*replay, error) {
	var choices []choice
	for i, queue := range r.queues {
		if len(queue) > 0 {
			undone := r.simulation.ledger.isUndone(r.name, queue[0])
			abandoned := undone || r.simulation.ledger.passesOver(queue[0], r.messages)
			if !undone {
				choices = append(choices, choice{queue: i})
			}
			if r.instance == nil && (len(r.queues) > 1 || abandoned) && r.beganWith(queue[0]) {
				choices = append(choices, choice{queue: i, begins: true})
			}
			if r.mayMigrateLater() {
				choices = append(choices, choice{queue: i, unmigrated: true})
			}
			if abandoned {
				choices = append(choices, choice{queue: i, abandoned: true})
			}
			if undone {
				continue
			}
			if strings.Contains(queue[0].body, `"settle.execution"`) && r.at < len(r.record.History) && r.record.History[r.at].Event == flowEnded {
				choices = append(choices, choice{queue: i, looked: true})
			}
			if strings.Contains(queue[0].body, `"settle.alias.taken"`) && r.at < len(r.record.History) && r.record.History[r.at].Event == durable.AliasTaken {
				choices = append(choices, choice{queue: i, taken: true})
			}
			if r.isScheduledAgain(queue[0]) {
				choices = append(choices, choice{queue: i, postponed: true})
			}
			if r.mayHaveForgotten(queue[0]) {
				choices = append(choices, choice{queue: i, again: true})
			}
			tells := r.at < len(r.record.History) && r.record.History[r.at].Event == durable.TokenExpired || len(r.parked(queue[0])) > 0
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
	if end, ok := r.deadEnds[position]; ok {
		return end.furthest, end.failure
	}
	if len(r.deadEnds) >= deadEndsMax {
		return r, errTooManyOrders
	}
	var failure error
	furthest := r
	for _, c := range choices {
		next, err := r.clone().follow(c)
		if err == nil {
			return next, nil
		}
		if failure == nil || next.at > furthest.at {
			failure, furthest = err, next
		}
	}
	r.deadEnds[position] = deadEnd{furthest, failure}
	return furthest, failure
}

// deadEndsMax limits how many positions the model tries for one instance.
const deadEndsMax = 20_000

var errTooManyOrders = fmt.Errorf("the model has tried %d orders of the messages, none of which agrees with the history", deadEndsMax)

// choice is one way on from a position.
type choice struct {
	queue int
	// expired says that a message about a token is the one by which the instance has learnt of its expiry:
	// the history does not say which of them was.
	expired bool
	// begins says that the message has begun the instance, but was taken later: a process that died in
	// between has stored the instance, and a message of another queue came first.
	begins bool
	// abandoned says that the queue has given the message up before it was applied, or another copy of it.
	abandoned bool
	// looked says that a message is the one by which the instance has found that an execution had ended.
	looked bool
	// taken says that another instance had the alias when the message was applied.
	taken bool
	// postponed says that the message was not applied, but scheduled again.
	postponed bool
	// again says that the message is a repeat that the instance does not recognize.
	again bool
	// unmigrated says that the instance is migrated later.
	unmigrated bool
}

// follow goes one way, and on from there.
func (r *replay) follow(c choice) (_ *replay, err error) {
	message := r.queues[c.queue][0]
	r.expired, r.looked, r.taken, r.again, r.unmigrated = c.expired, c.looked, c.taken, c.again, c.unmigrated
	switch {
	case c.begins:
		if err = r.begin(message); err == nil {
			err = r.settle()
		}
	case c.postponed:
		r.queues[c.queue] = r.queues[c.queue][1:]
	case c.abandoned:
		r.queues[c.queue] = r.queues[c.queue][1:]
		r.abandonTask(message)
	default:
		r.queues[c.queue] = r.queues[c.queue][1:]
		err = r.take(message)
	}
	if err != nil {
		return r, fmt.Errorf("message %s %s: %w", message.sequence, message.body, err)
	}
	return r.linearize()
}

// deadEnd is how a position turned out from which no way leads to the history's end.
type deadEnd struct {
	furthest *replay
	failure  error
}

// position is a digest of all that decides which ways lead on. Many orders of two queues meet again in one.
func (r *replay) position() uint64 {
	left := 0
	for _, queue := range r.queues {
		left = left*1000 + len(queue)
	}
	var snapshot json.RawMessage
	if r.instance != nil {
		snapshot = r.snapshot()
	}
	return digestOf(fmt.Sprint(left, r.at, r.startedAt, r.machine.Version(), string(snapshot), r.began, r.failed, r.seen, r.sends, r.tokens, r.awaited, r.asked, r.aliases, r.failures, r.spawned))
}

// clone returns a copy that can go another way.
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

// limited sets the limit that the loop sets too.
func limited(instance durable.Instance) durable.Instance {
	instance.(interface{ Limit(int) }).Limit(snapshotBytesMax)
	return instance
}

// play is linearize with each of the times at which processes had the instance begin: which of them has stored
// it, is not known.
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
	// recentMax is how many events an instance remembers by default, and recentSlack how many of those may be places that the model does
	// not know of: an event without an ID is remembered by its place if the first commit of its instance has it.
	recentMax   = 50
	recentSlack = 10
)

// remember notes that a message was applied.
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

// mayHaveForgotten reports whether a message repeats one that was applied before so many others that the instance may not recognize it.
// Sends of instances are recognized however late they come, unless it was an operator who has sent them again.
func (r *replay) mayHaveForgotten(message accepted) bool {
	id := cmp.Or(message.head().ID, message.place())
	if message.isSend() && !message.redriven || !r.seen[id] {
		return false
	}
	known := r.recent[max(0, len(r.recent)-recentMax+recentSlack):]
	return slices.Contains(r.recent, id) && !slices.Contains(known, id)
}
