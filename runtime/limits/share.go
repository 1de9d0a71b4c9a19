package limits

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// renewAfter is the age at which a lease is renewed, and retryAfter the wait after a renewal that failed.
	renewAfter = lease / 3
	retryAfter = lease / 10
	// loseBefore is the rest of a lease at which a process that could not renew the lease cancels its calls. It is longer
	// than requestMax, so that a request that hangs does not delay the cancellation beyond the lease.
	loseBefore = lease / 6
	// windowLeast is the shortest time for which starts are reserved.
	windowLeast = 100 * time.Millisecond
	// windowMax is the longest time for which starts are reserved, even if requests are slow.
	windowMax = 5 * time.Second
)

// share is the part of a limit that a process has leased for one key. It reads no clock: its methods take the time.
type share struct {
	// starts counts the calls that may still start until startUntil.
	starts     int
	startUntil time.Time
	// places counts the calls that may run until placesUntil, and running counts the calls that do run.
	places, running int
	placesUntil     time.Time
	isScarce        bool
	// ended counts the calls that have ended since the last request, and took is the sum of their durations.
	ended int
	took  time.Duration
	// losses counts the leases that ended while calls ran. A call of an earlier lease holds no place.
	losses int
}

// take begins a call with what the process has leased, or reports that it lacks a start or a place.
func (h *share) take(limit statechart.Limit, now time.Time) bool {
	if h.lacksStart(limit, now) || h.lacksPlace(limit, now) {
		return false
	}
	if limit.Rate > 0 {
		h.starts--
	}
	h.running++
	return true
}

func (h *share) lacksStart(limit statechart.Limit, now time.Time) bool {
	return limit.Rate > 0 && (h.starts == 0 || now.After(h.startUntil))
}

// lacksPlace also reports true if the lease is so old that the call could lose its place before a renewal.
func (h *share) lacksPlace(limit statechart.Limit, now time.Time) bool {
	return limit.Concurrency > 0 && (h.running >= h.places || h.placesUntil.Sub(now) <= lease/2)
}

// request asks for the calls that wait in this process. `latency` is the duration of the last request.
func (h *share) request(limit statechart.Limit, owner string, now time.Time, waiting int, latency time.Duration) request {
	r := request{owner: owner, now: now, running: h.running}
	r.window = max(windowLeast, period(limit)/20, min(4*latency, windowMax))
	r.window = min(r.window, windowMax)
	if h.ended > 0 {
		r.took = h.took / time.Duration(h.ended)
	}
	if h.lacksStart(limit, now) {
		r.starts = waiting
	}
	if h.lacksPlace(limit, now) {
		r.places = waiting
	}
	return r
}

// sending gives up the places that the request returns. It runs before the request, because a request may take effect
// even if its answer is lost.
func (h *share) sending(g grant) { h.places = min(h.places, g.places) }

// granted applies the answer to a request whose state is stored.
func (h *share) granted(limit statechart.Limit, g grant) {
	h.ended, h.took = 0, 0
	if g.starts > 0 {
		h.starts, h.startUntil = g.starts, g.startUntil
	}
	if limit.Concurrency > 0 {
		h.places, h.placesUntil, h.isScarce = g.places, g.placesUntil, g.isScarce
	}
}

// end ends a call that took its place when h.losses was `losses`. `took` is the call's duration, or 0 if the call has
// not begun. end reports whether the process should return the place to the others.
func (h *share) end(limit statechart.Limit, losses int, took time.Duration) (returns bool) {
	if losses != h.losses {
		return false
	}
	h.running--
	if took > 0 {
		h.ended++
		h.took += took
	}
	return limit.Concurrency > 0 && h.isScarce
}

// isLost reports whether the lease of running calls is about to end.
func (h *share) isLost(limit statechart.Limit, now time.Time) bool {
	return limit.Concurrency > 0 && h.running > 0 && h.placesUntil.Sub(now) <= loseBefore
}

// lose gives up the lease. The caller must cancel the running calls.
func (h *share) lose() { *h = share{losses: h.losses + 1} }
