package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/instances"
)

// safeRecorder is a response that may be read while it is written.
type safeRecorder struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
}

func (r *safeRecorder) Write(data []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ResponseRecorder.Write(data)
}

func (r *safeRecorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Body.String()
}

// stream opens the stream of a page. `end` closes it.
func (w *world) stream(path string) (r *safeRecorder, end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	r = &safeRecorder{ResponseRecorder: httptest.NewRecorder()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.handler.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "http://localhost/console/live/"+path, nil).WithContext(ctx))
	}()
	return r, func() {
		cancel()
		<-done
	}
}

// follow returns everything that the stream of a page sends during the given time.
func (w *world) follow(path string, duration time.Duration) string {
	r, end := w.stream(path)
	time.Sleep(duration)
	end()
	return r.text()
}

func TestAStreamSendsEachChangeOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		r, end := w.stream("instances/order/1")
		defer end()
		time.Sleep(time.Second)
		first := r.text()
		contains(t, first, `"instance-head":`, "The instance is in work.waiting and mood.calm.", `"frame-parked":`)
		if strings.Count(first, "data: ") != 1 {
			t.Errorf("expected one message without changes, got:\n%s", first)
		}
		w.send("order/1", `{"type": "CANCEL"}`)
		time.Sleep(time.Second)
		fresh := strings.TrimPrefix(r.text(), first)
		contains(t, fresh, "The instance is in work.cancelled and mood.calm.", "instance-timeline")
		if strings.Count(fresh, "data: ") != 1 || strings.Contains(fresh, "instance-context") {
			t.Errorf("expected one message with the changed parts, got:\n%s", fresh)
		}
		before := r.text()
		time.Sleep(11 * time.Second)
		if got := strings.Count(strings.TrimPrefix(r.text(), before), "data: "); got != 2 {
			t.Errorf("expected a heartbeat every 5 seconds, got %d in 11 seconds", got)
		}
	})
}

func TestStreamsOfAPageShareAPoller(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		var ends []func()
		for range 50 {
			_, end := w.stream("instances/order/1")
			ends = append(ends, end)
		}
		synctest.Wait()
		before := w.loads.Load()
		time.Sleep(10 * time.Second)
		if got := w.loads.Load() - before; got < 39 || got > 41 {
			t.Errorf("expected 40 reads in 10 seconds for 50 streams, got %d", got)
		}
		for _, end := range ends {
			end()
		}
		synctest.Wait()
		before = w.loads.Load()
		time.Sleep(10 * time.Second)
		if got := w.loads.Load(); got != before {
			t.Errorf("expected no reads without streams, got %d", got-before)
		}
	})
}

func TestAStreamSendsNothingOlderThanThePage(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Poll = 5 * time.Second }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		_, end := w.stream("instances/order/1")
		defer end()
		time.Sleep(2 * time.Second)
		w.send("order/1", `{"type": "CANCEL"}`)
		contains(t, w.page("instances/order/1", 0), "work.cancelled")
		second, endSecond := w.stream(fmt.Sprintf("instances/order/1?since=%d", time.Now().UnixMilli()))
		defer endSecond()
		time.Sleep(time.Second)
		if first := second.text(); strings.Contains(first, "work.waiting") || !strings.Contains(first, `"every":"5 s"`) {
			t.Errorf("expected a message without parts, got:\n%s", first)
		}
		time.Sleep(5 * time.Second)
		contains(t, second.text(), "The instance is in work.cancelled and mood.calm.")
	})
}

func TestASlowStoreIsReadLessOften(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Store = slowStore{c.Store.(*world)} }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		_, end := w.stream("instances/order/1")
		defer end()
		time.Sleep(time.Minute)
		if got := w.loads.Load(); got != 3 { // at 0 s, 21 s and 42 s
			t.Errorf("expected a read of a second every 21 seconds, got %d in a minute", got)
		}
	})
}

type slowStore struct{ *world }

func (s slowStore) Load(ctx context.Context, id instances.ID) (instances.Record, error) {
	time.Sleep(time.Second)
	return s.world.Load(ctx, id)
}

func TestAStreamReportsAProblemAndRecovers(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		r, end := w.stream("instances/order/1")
		defer end()
		time.Sleep(time.Second)
		w.failing.Store(true)
		time.Sleep(time.Second)
		contains(t, r.text(), `"problem":"AWS denied the read.`)
		before := r.text()
		w.failing.Store(false)
		w.send("order/1", `{"type": "CANCEL"}`)
		time.Sleep(time.Second)
		fresh := strings.TrimPrefix(r.text(), before)
		contains(t, fresh, "work.cancelled")
		if strings.Contains(fresh, "problem\":") {
			t.Errorf("expected the problem to be over, got:\n%s", fresh)
		}
	})
}

func TestAMeteredStreamShowsItsCost(t *testing.T) {
	t.Parallel()
	var w *world
	meter := func(c *console.Config) {
		c.Poll = 5 * time.Second
		c.ReadUnits = func() float64 { return float64(w.loads.Load()) * 1.5 }
	}
	inWorld(t, meter, func(t *testing.T, created *world) {
		w = created
		w.send("order/1", place)
		contains(t, w.follow("instances/order/1", 11*time.Second), "1.5 read units every 5 s, about $0.0032 a day")
	})
}
