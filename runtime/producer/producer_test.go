package producer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

const arn = "arn:aws:sqs:eu-west-1:123456789012:settle.fifo"

var lamp1 = instances.ID{Machine: "lamp", ID: "1"}

// ports is a queue and a store. The queue accepts every message, and always returns the same sequence number.
type ports struct {
	producer.Store
	sequence string
	record   instances.Record
	loads    int
}

func (p *ports) Enqueue(context.Context, durable.Message) (messageID, sequenceNumber string, err error) {
	return "message-1", p.sequence, nil
}
func (p *ports) ARN(context.Context) (string, error) { return arn, nil }
func (p *ports) Load(context.Context, instances.ID) (instances.Record, error) {
	p.loads++
	return p.record, nil
}

// TestAwaitRecognisesTheOutcomeOfItsEvent waits ten seconds for the outcome of the event LIGHT with the ID light-1. In
// each case, `before` is the record when the event is queued, and `after` is the record from then on.
func TestAwaitRecognisesTheOutcomeOfItsEvent(t *testing.T) {
	t.Parallel()
	machine := durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"LIGHT": statechart.NoPayload()},
		States: []statechart.State[struct{}]{
			{ID: "off", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{{Event: "LIGHT", Target: "on"}}},
			{ID: "on", Tags: []string{statechart.Settled, "bright"}, On: []statechart.Transition[struct{}]{{Event: "LIGHT", Target: "off"}}},
		},
	}), durable.MachineConfig{})
	machines, err := durable.NewMachines(machine)
	if err != nil {
		t.Fatal(err)
	}
	started, _, err := machine.Start(statechart.Start{Instance: lamp1.String()})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := started.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	at := func(sequence string, recent ...string) instances.Record {
		return instances.Record{
			Instance: lamp1, Revision: 1, Snapshot: snapshot, State: started.State(), Status: statechart.Active,
			Watermark: map[string]string{arn: sequence}, RecentEvents: recent,
		}
	}
	const body = `{"type":"LIGHT","$id":"light-1"}`
	digest, err := canonicaljson.EventDigest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	with := func(r instances.Record, change func(*instances.Record)) instances.Record { change(&r); return r }
	failure := &instances.Failure{Event: "LIGHT", Message: "broken"}
	history := []instances.Transition{{Event: "LIGHT", Ignored: true}}
	for name, c := range map[string]struct {
		before, after instances.Record
		until         producer.Condition
		want          error
		ignored       bool
	}{
		"the watermark has reached it": {at("7"), at("100"), producer.Settled, nil, false},
		"a later event":                {at("7"), at("1000"), producer.Settled, nil, false},
		// Compared as text, 99 is greater than 100.
		"an earlier event":        {at("7"), at("99"), producer.Settled, context.DeadlineExceeded, false},
		"no sequence number":      {at("7"), at("100"), producer.Settled, context.DeadlineExceeded, false},
		"no event":                {at(""), at(""), producer.Settled, context.DeadlineExceeded, false},
		"another queue":           {at("7"), with(at(""), func(r *instances.Record) { r.Watermark = map[string]string{arn + "x": "100"} }), producer.Settled, context.DeadlineExceeded, false},
		"a duplicate":             {at("7", "light-1#"+digest[:8]), at("7", "light-1#"+digest[:8]), producer.Settled, nil, false},
		"another event of its ID": {at("7", "light-1#00000000"), at("7", "light-1#00000000"), producer.Settled, context.DeadlineExceeded, false},
		"no instance":             {instances.Record{}, instances.Record{}, producer.Settled, context.DeadlineExceeded, false},
		"parked":                  {at("7"), with(at("100"), func(r *instances.Record) { r.Error = failure }), producer.Settled, producer.ErrParked, false},
		"an earlier parked event": {with(at("7"), func(r *instances.Record) { r.Error = failure }), with(at("100"), func(r *instances.Record) { r.Error = failure }), producer.Settled, nil, false},
		"ignored":                 {at("7"), with(at("100"), func(r *instances.Record) { r.History = history }), producer.Settled, nil, true},
		"ignored before":          {with(at("7"), func(r *instances.Record) { r.History = history }), with(at("100"), func(r *instances.Record) { r.History = history }), producer.Settled, nil, false},
		"a tag that it lacks":     {at("7"), at("100"), "bright", context.DeadlineExceeded, false},
		"the end without a tag":   {at("7"), with(at("100"), func(r *instances.Record) { r.Status = statechart.Stopped }), "bright", producer.ErrUnreachable, false},
		"the end is settled":      {at("7"), with(at("100"), func(r *instances.Record) { r.Status = statechart.Stopped }), producer.Settled, nil, false},
		"stopped, but not done":   {at("7"), with(at("100"), func(r *instances.Record) { r.Status = statechart.Stopped }), producer.Done, producer.ErrUnreachable, false},
		"done":                    {at("7"), with(at("100"), func(r *instances.Record) { r.Status = statechart.Done }), producer.Done, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := &ports{record: c.before, sequence: "100"}
				if name == "no sequence number" {
					all.sequence = ""
				}
				p := producer.New(machines, all, all, time.Now)
				event, err := producer.Check(machines, lamp1, []byte(body), "", producer.EventBytesMax)
				if err != nil {
					t.Fatal(err)
				}
				watched, err := p.Watch(t.Context(), event)
				if err != nil {
					t.Fatal(err)
				}
				sent, err := p.SendWatched(t.Context(), watched)
				if err != nil || sent.MessageID != "message-1" || sent.Place != (instances.Place{Queue: arn, SequenceNumber: all.sequence}) {
					t.Errorf("expected message-1 with its place, got %+v, %v", sent, err)
				}
				all.record = c.after
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				outcome, err := p.Await(ctx, sent, c.until, nil)
				if !errors.Is(err, c.want) || err == nil && outcome.Ignored != c.ignored {
					t.Errorf("expected %v and ignored %v, got %+v, %v", c.want, c.ignored, outcome, err)
				}
			})
		})
	}
}

// TestAPollCanEndTheWait also checks that the caller sees each poll.
func TestAPollCanEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &ports{record: instances.Record{Instance: lamp1}}
		stop, polls := errors.New("enough"), []string{}
		_, err := producer.New(nil, all, all, time.Now).Wait(t.Context(), lamp1, producer.Settled, func(_ context.Context, poll producer.Poll) error {
			if polls = append(polls, poll.Waited.String()); poll.Waited > 6*time.Second {
				return stop
			}
			return nil
		})
		const want = "0s 100ms 250ms 475ms 812.5ms 1.31875s 2.078125s 3.217187s 4.92578s 6.92578s"
		if got := strings.Join(polls, " "); !errors.Is(err, stop) || all.loads != len(polls) || !strings.HasPrefix(got, "0s 100ms 250ms 475ms 812.5ms 1.31875s") {
			t.Errorf("expected polls such as %s, got %s, %d reads, %v", want, got, all.loads, err)
		}
	})
}
