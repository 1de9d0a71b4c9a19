package durable_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// limited is a machine with a limit on the age of a backlog.
type limited struct{ durable.Machine }

func (limited) BacklogAgeMax() time.Duration { return time.Minute }

// Only a batch that is full of one instance's events shows a backlog. The age of the backlog counts from the oldest
// delivery that was sent to this queue and was not received before.
func TestAFullBatchShowsTheAgeOfItsBacklog(t *testing.T) {
	t.Parallel()
	retried := func(d *durable.Delivery) { d.ReceiveCount = 2 }
	forwarded := func(d *durable.Delivery) {
		d.Forwarding.From = instances.Place{Queue: "other", SequenceNumber: d.SequenceNumber}
	}
	for name, c := range map[string]struct {
		deliveries int
		// change changes the first n deliveries.
		change func(*durable.Delivery)
		n      int
		// oldest is the index of the delivery from which the age counts, or -1 without a backlog.
		oldest    int
		unlimited bool
	}{
		"full":                          {deliveries: 10, oldest: 0},
		"not full":                      {deliveries: 9, oldest: -1},
		"the first deliveries retried":  {deliveries: 10, change: retried, n: 3, oldest: 3},
		"all deliveries retried":        {deliveries: 10, change: retried, n: 10, oldest: -1},
		"all deliveries from elsewhere": {deliveries: 10, change: forwarded, n: 10, oldest: -1},
		"full, without a limit":         {deliveries: 10, oldest: 0, unlimited: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if !c.unlimited {
					var err error
					if w.machines, err = durable.NewMachines(limited{w.order()}); err != nil {
						t.Fatal(err)
					}
				}
				w.deliver("q", "order/1", [2]string{"1", event("add", "first")})
				stored := w.load("order/1")
				stored.BacklogSince = time.Now() // The machine may have had a limit before.
				w.store(stored)
				var reported time.Duration
				w.config.Observer.Loaded = func(_ context.Context, l durable.Loaded) { reported = max(reported, l.Backlog) }
				var batch []durable.Delivery
				for i := range c.deliveries {
					number := fmt.Sprint(10 + i)
					d := durable.Delivery{MessageID: number, ReceiptHandle: number, Queue: "q", Group: "order/1", SequenceNumber: number, ReceiveCount: 1, SentAt: time.Now(), Body: event("add", number)}
					if i < c.n {
						c.change(&d)
					}
					batch = append(batch, d)
					time.Sleep(time.Second)
				}
				time.Sleep(time.Hour)
				var since time.Time
				var want time.Duration
				if c.oldest >= 0 {
					since = batch[c.oldest].SentAt
					want = time.Since(since)
				}
				if failed := w.handle(batch, functionTimeout); len(failed) > 0 {
					t.Fatalf("the deliveries %v failed", failed)
				}
				if reported != want {
					t.Errorf("a backlog of %v is reported, want %v", reported, want)
				}
				if c.unlimited {
					since = time.Time{} // Without a limit, the attribute is not stored.
				}
				if got := w.load("order/1").BacklogSince; !got.Equal(since) {
					t.Errorf("the record has a backlog since %v, want %v", got, since)
				}
				w.deliver("q", "order/1", [2]string{"90", event("add", "last")})
				if got := w.load("order/1").BacklogSince; !got.IsZero() {
					t.Errorf("the record has a backlog since %v after a batch of one event, want none", got)
				}
			})
		})
	}
}
