package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/tracing"
)

// traced is a sender that records the traces of its messages.
type traced struct{ traces []tracing.Trace }

func (s *traced) Send(ctx context.Context, _ durable.Message) (string, error) {
	s.traces = append(s.traces, tracing.Of(ctx))
	return "id", nil
}

func TestTheDelayQueueKeepsTheTrace(t *testing.T) {
	t.Parallel()
	for _, want := range []tracing.Trace{{}, {Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", AWS: "Root=1-5759e988-bd862e3fe1be46a994272793"}} {
		synctest.Test(t, func(t *testing.T) {
			f, sender := newFixture(t), &traced{}
			f.forwarder = schedule.NewForwarder(f.delays, nil, sender)
			// The message needs two hops.
			err := f.delays.Schedule(tracing.With(t.Context(), want), time.Now().Add(20*time.Minute), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
			if err != nil {
				t.Fatal(err)
			}
			f.poll(time.Hour)
			if len(sender.traces) != 1 || sender.traces[0] != want {
				t.Errorf("got the traces %+v, want %+v", sender.traces, want)
			}
		})
	}
}
