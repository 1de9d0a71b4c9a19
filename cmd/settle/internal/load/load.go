// Package load calls a function at a constant rate and summarises durations, for settle bench.
package load

import (
	"context"
	"slices"
	"sync"
	"time"
)

// InFlightMax is how many calls Pace runs at a time.
const InFlightMax = 256

// Pace calls `send` n times, perSecond times a second, and waits until all calls have returned. Pace starts each call
// at its scheduled time, whether or not earlier calls have returned (an open-loop load). A closed loop would send less
// while the system is slow, and so miss the worst samples (coordinated omission). For the same reason, measure from the
// scheduled time.
//
// A call starts late if InFlightMax calls are running or the process gets no CPU time. Pace returns how late each call
// started, in order of the calls. If ctx ends, Pace starts no further calls and returns the cause.
func Pace(ctx context.Context, now func() time.Time, n, perSecond int, send func(i int, scheduled time.Time)) (lags []time.Duration, err error) {
	slots := make(chan struct{}, InFlightMax)
	var calls sync.WaitGroup
	defer calls.Wait()
	begun := now()
	for i := range n {
		scheduled := begun.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		if err := Sleep(ctx, scheduled.Sub(now())); err != nil {
			return lags, err
		}
		slots <- struct{}{}
		lags = append(lags, max(now().Sub(scheduled), 0))
		calls.Go(func() {
			send(i, scheduled)
			<-slots
		})
	}
	return lags, nil
}

// Sleep pauses for d. It returns the cause if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// Summary has the nearest-rank percentiles of durations, in whole milliseconds.
type Summary struct {
	Samples int   `json:"samples"`
	P50     int64 `json:"p50_ms"`
	P90     int64 `json:"p90_ms"`
	P99     int64 `json:"p99_ms"`
	Max     int64 `json:"max_ms"`
}

// Summarize returns the summary of the samples, in any order. The summary of no samples is zero.
func Summarize(samples []time.Duration) Summary {
	if len(samples) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(percent int) int64 { return Percentile(sorted, percent).Milliseconds() }
	return Summary{Samples: len(sorted), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Percentile returns the nearest-rank percentile of samples in ascending order: the smallest sample that is at
// least as large as `percent` percent of the samples. It needs at least one sample and a percentage of 1 to 100.
func Percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(percent*len(sorted)+99)/100-1]
}
