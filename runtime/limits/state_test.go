package limits

import (
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var epoch = time.Unix(1_000_000, 0).UTC()

// one is a request for one call.
func one(owner string, now time.Time) request {
	return request{owner: owner, now: now, starts: 1, places: 1, window: windowLeast}
}

func TestAStateStaysSmallAndCountsAllStarts(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Rate: 1000, Per: time.Hour}
	var s State
	granted, last := 0, epoch
	for i := range 1200 {
		now := epoch.Add(time.Duration(i) * time.Second)
		next, g := s.step(limit, one("a", now))
		if s = next; g.starts > 0 {
			granted, last = granted+g.starts, g.startUntil
		}
	}
	if len(s.Starts) > startsMax || calls(s.Starts) != granted || granted != 1000 {
		t.Errorf("got %d leases for %d calls, %d granted, want at most %d leases for 1000 calls", len(s.Starts), calls(s.Starts), granted, startsMax)
	}
	if got := s.Starts[len(s.Starts)-1].Until; got.Before(last) {
		t.Errorf("the last lease ends at %v, want %v or later", got, last)
	}
}

func TestCallsThatWaitReturnOneAfterTheOther(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Rate: 2, Per: time.Second}
	s, first := State{}, grant{}
	for range 2 {
		s, first = s.step(limit, one("a", epoch))
	}
	free := first.startUntil.Add(time.Second)
	for i := 1; i <= 4; i++ {
		next, g := s.step(limit, one("a", epoch))
		if want := free.Add(time.Duration(i) * 500 * time.Millisecond); !g.returnAt.Equal(want) {
			t.Errorf("waiting call %d returns at %v, want %v", i, g.returnAt, want)
		}
		if s = next; calls(s.Starts) != 2 {
			t.Errorf("waiting call %d reserves a start: %+v", i, s.Starts)
		}
	}
}

func TestIdleProcessesHoldAtMostHalfOfTheConcurrency(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Concurrency: 100}
	var s State
	idle := 0 // the places of processes that need not return them
	for _, owner := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		next, g := s.step(limit, one(owner, epoch))
		if s = next; !g.isScarce {
			idle += g.places
		}
	}
	if idle < 10 || idle > 50 {
		t.Errorf("idle processes hold %d places, want 10 to 50", idle)
	}
}

func TestAProcessKeepsStartsOnlyForTheirTime(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Rate: 10}
	h := share{starts: 2, startUntil: epoch}
	if !h.take(limit, epoch) || h.take(limit, epoch.Add(1)) {
		t.Errorf("got %+v, want one start taken in time, and none later", h)
	}
}

func TestAnUnusedStateExpires(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Rate: 1, Per: time.Hour, Concurrency: 1}
	s, g := State{}.step(limit, one("a", epoch))
	if want := g.startUntil.Add(time.Hour + expiryMargin); !s.ExpireAt.Equal(want) {
		t.Errorf("expires at %v, want %v", s.ExpireAt, want)
	}
	if again, g := s.step(limit, one("b", s.ExpireAt)); g.starts != 1 || g.places != 1 {
		t.Errorf("at its expiry, %+v still limits: %+v, %+v", s, again, g)
	}
}
