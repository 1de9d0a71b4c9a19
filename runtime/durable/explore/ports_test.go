package explore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

var (
	errFault = errors.New("injected fault")
	errDead  = errors.New("the process is dead")
)

// Load implements durable.Store.
func (p *process) Load(_ context.Context, id instances.ID) (record instances.Record, err error) {
	record.Instance = id
	err = p.call(id.String(), "Load", func(w *world) error {
		if s, ok := w.records[id.String()]; ok {
			mustUnmarshal(s.json, &record)
		}
		return nil
	})
	return record, err
}

// Get implements durable.Cache. It may return one of the last copies that any process has put, so the copy may be stale.
func (p *process) Get(id instances.ID) (record instances.Record, ok bool) {
	_ = p.call(id.String(), "Get", func(w *world) error {
		for i, body := range w.cached[id.String()] {
			if w.left.Copies > 0 && p.d.allow(p.label(fmt.Sprintf("%s uses copy %d", id, i+1))) {
				w.left.Copies--
				mustUnmarshal(body, &record)
				ok = true
				break
			}
		}
		return nil
	})
	return record, ok
}

// copiesMax is how many copies of an instance the world keeps.
const copiesMax = 2

// Put implements durable.Cache.
func (p *process) Put(record instances.Record) {
	_ = p.call(record.Instance.String(), "Put", func(w *world) error {
		id := record.Instance.String()
		body, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		kept := slices.DeleteFunc(slices.Clone(w.cached[id]), func(c []byte) bool { return bytes.Equal(c, body) })
		w.cached[id] = slices.Concat([][]byte{body}, kept[:min(len(kept), copiesMax-1)])
		return nil
	})
}

// Loaded implements durable.Cache.
func (p *process) Loaded(instances.Record) {}

// Commit implements durable.Store.
func (p *process) Commit(_ context.Context, record instances.Record) error {
	id := record.Instance.String()
	return p.call(id, "Commit", func(w *world) error {
		was, recordWas := w.records[id], w.record(id)
		if was.revision != record.Revision-1 {
			return durable.ErrConflict
		}
		if was.revision > 0 {
			w.backups[id] = was
		}
		is := w.store(record)
		if p.command != nil {
			w.operated(recordWas, record, p.command)
		}
		w.committed(was, is, record)
		if !p.frozen { // Other processes may have counted their tries meanwhile.
			w.blamed(was, is, record)
		}
		return nil
	})
}

// ClearOutbox implements durable.Store.
func (p *process) ClearOutbox(_ context.Context, id instances.ID, revision int64, left durable.Left) error {
	return p.call(id.String(), "ClearOutbox", func(w *world) error {
		if w.records[id.String()].revision != revision {
			return durable.ErrConflict
		}
		record := w.record(id.String())
		for _, effect := range record.Outbox {
			if !slices.ContainsFunc(left.Outbox, func(e statechart.Effect) bool { return e.ID == effect.ID }) {
				w.facts["cleared "+derivedID(record, effect.ID)] = 1
			}
		}
		record.Revision++
		record.Outbox, record.Tokens, record.Executions = left.Outbox, left.Tokens, left.Executions
		record.FailedEffects, record.DeniedSince, record.ExpireAt = left.FailedEffects, left.DeniedSince, left.ExpireAt
		if left.WithoutHistory {
			record.History = nil
		}
		w.keptFailures(record)
		w.store(record)
		return nil
	})
}

// KeepSends implements durable.Store.
func (p *process) KeepSends(_ context.Context, receiver instances.ID, queue string, sends []instances.LastSend, _ time.Time) error {
	return p.call(receiver.String(), "KeepSends", func(w *world) error {
		for _, send := range sends {
			if key := receiver.String() + " " + queue + " " + send.Sender; send.After(w.sends[key]) {
				w.sends[key] = send
			}
		}
		return nil
	})
}

// LastSend implements durable.Store.
func (p *process) LastSend(_ context.Context, receiver instances.ID, queue, sender string) (last instances.LastSend, ok bool, err error) {
	err = p.call(receiver.String(), "LastSend", func(w *world) error {
		last, ok = w.sends[receiver.String()+" "+queue+" "+sender]
		return nil
	})
	return last, ok, err
}

// Claim implements durable.Store on condition of the revision, like dynamostore.
func (p *process) Claim(_ context.Context, name string, id instances.ID, createdAt time.Time, revision int64) error {
	return p.call(id.String(), "Claim", func(w *world) error {
		if stored := w.records[id.String()]; stored.revision != revision {
			return durable.ErrConflict
		}
		has, exists := w.aliases[name]
		mine, created := has.owner == id.String(), createdAt.UnixMilli()
		switch {
		case !exists || has.released || mine && has.created < created:
			w.aliases[name] = alias{owner: id.String(), created: created}
			return nil
		case mine && has.created == created:
			return nil
		}
		w.refused(name, has, id.String())
		return durable.ErrAliasTaken
	})
}

// Release implements durable.Store.
func (p *process) Release(_ context.Context, name string, id instances.ID, createdAt, expireAt time.Time) error {
	return p.call(id.String(), "Release", func(w *world) error {
		if has := w.aliases[name]; has.owner == id.String() && has.created == createdAt.UnixMilli() && !slices.Contains(w.record(has.owner).Aliases, name) {
			has.released, has.expireAt = true, expireAt
			w.aliases[name] = has
		}
		return nil
	})
}

// Send implements durable.Sender.
func (p *process) Send(_ context.Context, m durable.Message) (messageID string, err error) {
	err = p.call(senderOf(m), "Send", func(w *world) error {
		if w.denied && p.command == nil {
			return fmt.Errorf("no permission: %w", durable.ErrDenied)
		}
		w.performed(m)
		messageID = w.send(m)
		return nil
	})
	return messageID, err
}

// SendBatch implements durable.Queue. SQS may accept a part of a batch, so each message is a call of its own.
func (p *process) SendBatch(ctx context.Context, messages []durable.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		_, errs[i] = p.Send(ctx, m)
	}
	return errs
}

// Park implements durable.Queue. A second parking has no effect, because the deduplication ID is the same.
func (p *process) Park(_ context.Context, d durable.Delivery, reason string) error {
	return p.call(d.Group, "Park", func(w *world) error {
		w.parkedNow(d, reason)
		if !slices.ContainsFunc(w.parked, func(other parked) bool { return other.MessageID == d.MessageID }) {
			w.parked = append(w.parked, parked{Delivery: d, reason: reason})
		}
		return nil
	})
}

// Forward implements durable.Queue.
func (p *process) Forward(_ context.Context, d durable.Delivery, lane string) error {
	return p.call(d.Group, "Forward", func(w *world) error {
		sentTo := d.Forwarding.SentTo
		if sentTo == "" {
			sentTo = d.Queue
		}
		w.forwarded(d, lane, durable.Forwarding{From: instances.Place{Queue: d.Queue, SequenceNumber: d.SequenceNumber}, SentTo: sentTo})
		return nil
	})
}

// Delay implements durable.Queue.
func (p *process) Delay(_ context.Context, deliveries []durable.Delivery, wait time.Duration) error {
	return p.call(deliveries[0].Group, "Delay", func(w *world) error {
		for _, d := range deliveries {
			for i := range w.messages {
				if w.messages[i].ReceiptHandle == d.ReceiptHandle {
					w.messages[i].visibleAt = w.clock.Add(wait)
				}
			}
		}
		return nil
	})
}

// Schedule implements durable.Timers.
func (p *process) Schedule(_ context.Context, at time.Time, m durable.Message) error {
	return p.call(senderOf(m), "Schedule", func(w *world) error {
		w.performed(m)
		w.scheduled = append(w.scheduled, scheduled{at, m})
		return nil
	})
}

// Cancel implements durable.Timers. It cancels nothing, because a timer that still fires is the harder case.
func (*process) Cancel(context.Context, string) error { return nil }

// Acknowledge implements durable.Acknowledger.
func (p *process) Acknowledge(_ context.Context, deliveries []durable.Delivery) error {
	return p.call(deliveries[0].Group, "Acknowledge", func(w *world) error {
		w.remove(deliveries)
		return nil
	})
}

// Answer implements durable.Tokens as sfncallback does over Step Functions. If the execution is known, its history
// distinguishes our own answer from an expiry.
func (p *process) Answer(_ context.Context, token instances.Token, answer instances.Answer, repeat bool) error {
	value := token.Value.Reveal()
	return p.call(groupOf(value), "Answer", func(w *world) error {
		text := string(answer.Output) + answer.Error
		t := w.tasks[value]
		switch {
		case t.answer == "" && !t.isGone(w.clock):
			t.answer = text
			w.tasks[value] = t
			return nil
		case token.Execution == "" && repeat, token.Execution != "" && t.answer == text:
			return nil
		}
		return durable.ErrExpired
	})
}

// Heartbeat implements durable.Tokens.
func (p *process) Heartbeat(_ context.Context, token instances.Token) error {
	value := token.Value.Reveal()
	return p.call(groupOf(value), "Heartbeat", func(w *world) error {
		t := w.tasks[value]
		if t.answer != "" || t.isGone(w.clock) {
			return durable.ErrExpired
		}
		t.beaten = w.clock
		w.tasks[value] = t
		return nil
	})
}

// Start implements durable.Executions.
func (p *process) Start(_ context.Context, e instances.Execution, input json.RawMessage) (arn string, err error) {
	arn = "arn of " + e.Name
	end, _, err := durable.ExecutionEnd(input, statechart.ExecutionEnded{Name: e.Name})
	if err != nil {
		panic(err)
	}
	group := end.To.String()
	return arn, p.call(group, "Start", func(w *world) error {
		if w.scenario.refused {
			return &durable.RefusedError{Code: "StateMachineDoesNotExist", Err: errFault}
		}
		if _, known := w.executions[arn]; !known {
			w.executions[arn] = execution{name: e.Name, group: group, input: string(input)}
		}
		return nil
	})
}

// Describe implements durable.Executions.
func (p *process) Describe(_ context.Context, arn string) (end *statechart.ExecutionEnded, err error) {
	err = p.call(p.w.executions[arn].group, "Describe", func(w *world) error {
		switch e, known := w.executions[arn]; {
		case !known:
			return durable.ErrNoExecution
		case e.end != "":
			end = &statechart.ExecutionEnded{Status: statechart.ExecutionStatus(e.end)}
		}
		return nil
	})
	return end, err
}

// serve makes one attempt of a service.
func (p *process) serve(name string, call statechart.Call) error {
	what := "Serve"
	if name == "kill" {
		what = killer
	}
	return p.call(call.Instance, what, func(w *world) error {
		if !p.frozen { // A process that wakes up may call a service that another process has finished. The loop cannot prevent that.
			w.served(name, call)
		}
		return nil
	})
}

// senderOf returns the sender of a message. IDs of messages begin with the name of their sender.
func senderOf(m durable.Message) string {
	sender, _, _ := strings.Cut(m.DeduplicationID, "@")
	return sender
}

// groupOf returns the instance that holds a token. Tokens here begin with the instance's name.
func groupOf(token string) string {
	group, _, _ := strings.Cut(token, "|")
	return group
}

func derivedID(record instances.Record, id string) string {
	return fmt.Sprintf("%s@%d/%s", record.Instance, record.CreatedAt.UnixMilli(), id)
}
