package load_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/cmd/settle/internal/load"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sorted := slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 20), func(n int) time.Duration { return time.Duration(n) }), 1, 300).Draw(t, "samples")))
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		got := load.Percentile(sorted, percent)
		atMost, below := 0, 0
		for _, sample := range sorted {
			if sample <= got {
				atMost++
			}
			if sample < got {
				below++
			}
		}
		if 100*atMost < percent*len(sorted) || 100*below >= percent*len(sorted) {
			t.Fatalf("the percentile %d of %v: got %v", percent, sorted, got)
		}
	})
}

func TestSummaryHasMilliseconds(t *testing.T) {
	t.Parallel()
	var samples []time.Duration
	for n := 200; n > 0; n-- {
		samples = append(samples, time.Duration(n)*time.Millisecond)
	}
	if got, want := load.Summarize(samples), (load.Summary{Samples: 200, P50: 100, P90: 180, P99: 198, Max: 200}); got != want {
		t.Errorf("expected %+v, got %+v", want, got)
	}
	if got := load.Summarize(nil); got != (load.Summary{}) {
		t.Errorf("expected a zero summary of no samples, got %+v", got)
	}
}

func TestPaceDoesNotWaitForSlowCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		starts := make([]time.Duration, 50)
		lags, err := load.Pace(t.Context(), time.Now, len(starts), 100, func(i int, _ time.Time) {
			starts[i] = time.Since(begun)
			time.Sleep(time.Minute)
		})
		for i, start := range starts {
			if want := time.Duration(i) * 10 * time.Millisecond; err != nil || start != want || lags[i] != 0 {
				t.Fatalf("expected call %d after %v, got it after %v, %v", i, want, start, err)
			}
		}
	})
}

// With InFlightMax slow calls in flight, the next call starts once the first returns. Its lag counts from its scheduled
// time.
func TestPaceReportsItsLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lags, err := load.Pace(t.Context(), time.Now, load.InFlightMax+1, 1000, func(int, time.Time) { time.Sleep(time.Second) })
		if last := lags[load.InFlightMax]; err != nil || lags[load.InFlightMax-1] != 0 || last != time.Second-load.InFlightMax*time.Millisecond {
			t.Errorf("expected a lag of the last call only, got %v, %v", last, err)
		}
	})
}

func TestPaceStopsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		returned := 0
		lags, err := load.Pace(ctx, time.Now, 100, 10, func(i int, _ time.Time) {
			if i == 3 {
				stop(stopped)
			}
			time.Sleep(time.Millisecond)
			returned++ // Calls of the function do not overlap.
		})
		if !errors.Is(err, stopped) || len(lags) != 4 || returned != 4 {
			t.Errorf("expected 4 complete calls and the cause, got %d, %d and %v", len(lags), returned, err)
		}
	})
}
