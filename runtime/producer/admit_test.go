package producer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestAdmitRefusesAnInstanceThatIsBehind uses a limit of a minute. A refusal must end a minute after the last write, even if
// nothing writes the instance any more.
func TestAdmitRefusesAnInstanceThatIsBehind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const minute = time.Minute
	for name, c := range map[string]struct {
		limit time.Duration
		// written is how long ago the instance was written. age is the age of its backlog then, 0 without one.
		written, age time.Duration
		retryAfter   time.Duration
		loads        int
	}{
		"no limit":                             {age: time.Hour},
		"no backlog":                           {limit: minute, loads: 1},
		"at the limit":                         {limit: minute, age: minute, loads: 1},
		"beyond the limit":                     {limit: minute, age: minute + 1, retryAfter: minute, loads: 1},
		"beyond the limit, a moment ago":       {limit: minute, age: time.Hour, written: minute - 1, retryAfter: 1, loads: 1},
		"beyond the limit, a minute ago":       {limit: minute, age: time.Hour, written: minute, loads: 1},
		"beyond the limit, by another machine": {limit: time.Hour, age: minute + 1, loads: 1},
	} {
		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[struct{}]{
			ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"LIGHT": statechart.NoPayload()},
			States: []statechart.State[struct{}]{{ID: "off", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{{Event: "LIGHT"}}}},
		}), durable.MachineConfig{BacklogAgeMax: c.limit}))
		if err != nil {
			t.Fatal(err)
		}
		stored := &ports{record: instances.Record{Instance: lamp1, Revision: 7, UpdatedAt: now.Add(-c.written)}}
		if c.age > 0 {
			stored.record.BacklogSince = stored.record.UpdatedAt.Add(-c.age)
		}
		p := producer.New(machines, stored, stored, func() time.Time { return now })
		event, err := producer.Check(machines, lamp1, []byte(`{"type": "LIGHT"}`), "", producer.EventBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Admit(t.Context(), event)
		var behind *producer.BehindError
		if refused := errors.As(err, &behind); refused != (c.retryAfter > 0) || refused && (behind.RetryAfter != c.retryAfter || !errors.Is(err, producer.ErrBehind)) {
			t.Errorf("%s: want a refusal for %v, got %v", name, c.retryAfter, err)
		}
		if stored.loads != c.loads {
			t.Errorf("%s: want %d reads, got %d", name, c.loads, stored.loads)
		}
	}
}
