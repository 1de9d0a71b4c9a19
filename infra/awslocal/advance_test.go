package awslocal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// Without a poller, the rest of the queue's messages would expire unprocessed on the way to the target.
func TestAdvance_ends_with_the_last_poller_of_a_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", nil)
		slow := newWork(clock)
		slow.takes = 5 * time.Second
		ctx, stop := context.WithCancel(t.Context())
		var polling sync.WaitGroup
		polling.Go(func() {
			if err := cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: 30 * time.Second}, func() awslocal.Invoker { return slow }); err != nil {
				t.Errorf("Poll: %v", err)
			}
		})
		q.sendDelayed("a", 60)
		q.sendDelayed("b", 120)
		synctest.Wait()
		time.AfterFunc(time.Second, stop) // while the function has "a"
		done, err := cloud.Advance(t.Context(), time.Hour)
		polling.Wait()
		wantMessage(t, err, "queue lost its last poller")
		if passed := done.To.Sub(done.From); passed > 3*time.Minute {
			t.Errorf("want the clock to stay at the last work, got %v", passed)
		}
		if _, err := cloud.Advance(t.Context(), time.Second); err != nil {
			t.Errorf("want a later call to succeed, got %v", err)
		}
	})
}

func TestAdvance_ends_with_EndAdvances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", nil)
		slow := newWork(clock)
		slow.takes = 25 * time.Second
		slow.poll(t, q)
		q.sendDelayed("a", 60)
		synctest.Wait()
		stopping := errors.New("stopping")
		time.AfterFunc(time.Second, func() { cloud.EndAdvances(stopping) })
		before := time.Now()
		if _, err := cloud.Advance(t.Context(), time.Hour); !errors.Is(err, stopping) || time.Since(before) != time.Second {
			t.Errorf("want the error at once, got %v after %v", err, time.Since(before))
		}
		if _, err := cloud.Advance(t.Context(), time.Hour); !errors.Is(err, stopping) {
			t.Errorf("want a later call to fail too, got %v", err)
		}
	})
}
