package limits

import (
	"cmp"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Lease is a number of calls that may use a limit until a time.
type Lease struct {
	Owner string    `json:"owner,omitempty"` // the process that holds the lease; empty in State.Starts
	Calls int       `json:"calls"`
	Until time.Time `json:"until"`
}

// State is the stored state of one key of a limit. It is a value: a step returns a new one. The zero value is the state
// of a key that no call uses.
type State struct {
	// Write identifies the write that stored the state. It is unique. Empty means that nothing is stored.
	Write string
	// Starts holds the calls that count against the rate, in the order of Until. Each call starts at or before its Until,
	// and counts until one period after its Until.
	Starts []Lease
	// Holders holds the calls that count against the concurrency: one lease for each process.
	Holders []Lease
	// ReturnAt is the latest time at which a waiting call asks again.
	ReturnAt time.Time
	// CallTime is the moving average of the duration of calls. It only decides when waiting calls return.
	CallTime time.Duration
	// ExpireAt is the time from which the state equals the zero value, plus an hour for clock skew.
	ExpireAt time.Time
}

const (
	// startsMax limits State.Starts, so that an item stays small. Beyond it, the two neighbouring leases with the smallest
	// gap are merged, and the result counts until the later time.
	startsMax = 32
	// spareMax limits the calls that a process reserves in advance.
	spareMax = 100
	// startWindowMax limits the time for which a process reserves starts.
	startWindowMax = 30 * time.Second
	// returnEvery is the shortest interval between the returns of calls that wait for a place.
	returnEvery = 20 * time.Millisecond
	// lease is how long a process may use its places without a renewal, and how long the places of a dead process stay
	// taken.
	lease = 30 * time.Second
	// expiryMargin is how long after its last use a state is kept.
	expiryMargin = time.Hour
)

// request asks for calls. A request for no calls renews the lease of the running ones, or returns places.
type request struct {
	owner string
	now   time.Time
	// starts counts the calls that lack a start, and places the calls that lack a place.
	starts, places int
	// running counts the calls that hold a place of the owner.
	running int
	// took is the average duration of the calls that have ended since the last request; 0 if none has.
	took time.Duration
	// window is the time that the process needs to begin its calls.
	window time.Duration
}

// grant is the answer to a request.
type grant struct {
	// starts counts the calls that may start from now until startUntil.
	starts     int
	startUntil time.Time
	// places counts the calls of the owner that may run until placesUntil, including those that already run.
	places      int
	placesUntil time.Time
	// isScarce is set if less than half of the concurrency is free. The process then returns a place after each call.
	isScarce bool
	// returnAt is set if the request was denied. It is the time at which one call should ask again.
	returnAt time.Time
}

// period is the interval of the rate.
func period(limit statechart.Limit) time.Duration {
	if limit.Per == 0 {
		return time.Second
	}
	return limit.Per
}

// step takes one request. Two promises hold for all requests of all owners, if their clocks agree:
//
//   - In any half-open interval as long as the period, at most limit.Rate calls start. Proof: take the last granted
//     lease with a start in the interval. Every other lease with a start in the interval was granted earlier, and its
//     Until plus the period is later than the last grant. So Starts still contained all of them at the last grant, and
//     the sum of all these leases is at most the rate.
//   - At any time, the leases in Holders allow at most limit.Concurrency calls.
func (s State) step(limit statechart.Limit, r request) (State, grant) {
	next := State{ReturnAt: s.ReturnAt, CallTime: s.CallTime}
	if r.took > 0 {
		next.CallTime = (3*cmp.Or(s.CallTime, r.took) + r.took) / 4
	}
	var freeStarts, freePlaces int
	if limit.Rate > 0 {
		next.Starts = without(s.Starts, func(l Lease) bool { return !l.Until.Add(period(limit)).After(r.now) })
		freeStarts = limit.Rate - calls(next.Starts)
	}
	if limit.Concurrency > 0 {
		next.Holders = without(s.Holders, func(l Lease) bool { return l.Owner == r.owner || !l.Until.After(r.now) })
		freePlaces = limit.Concurrency - calls(next.Holders) - r.running
	}
	g := grant{}
	if limit.Rate > 0 && r.starts > 0 && freeStarts <= 0 || limit.Concurrency > 0 && r.places > 0 && freePlaces <= 0 {
		g.returnAt = next.returnAt(limit, r, freeStarts <= 0)
		next.ReturnAt = g.returnAt
		r.starts, r.places = 0, 0
	}
	if limit.Rate > 0 && r.starts > 0 {
		g.starts, g.startUntil = min(r.starts, freeStarts), r.now.Add(r.window)
		if spare := spareOf(limit.Rate, freeStarts-g.starts); spare > 0 {
			g.starts += spare
			g.startUntil = r.now.Add(max(r.window, min(period(limit)/4, startWindowMax)))
		}
		next.addStarts(Lease{Calls: g.starts, Until: g.startUntil})
	}
	if limit.Concurrency > 0 {
		granted := max(min(r.places, freePlaces), 0)
		g.places, g.placesUntil = r.running+granted, r.now.Add(lease)
		g.isScarce = 2*(freePlaces-granted) < limit.Concurrency
		if granted > 0 {
			g.places += spareOf(limit.Concurrency, freePlaces-granted)
		}
		if g.places > 0 {
			next.Holders = append(next.Holders, Lease{Owner: r.owner, Calls: g.places, Until: g.placesUntil})
		}
	}
	next.ExpireAt = next.expireAt(limit, r.now)
	return next, g
}

// spareOf returns how many calls a process reserves beyond its need. At least half of the limit stays free, so that idle
// processes do not starve others.
func spareOf(limit, free int) int { return min(max(0, (free-limit/2)/4), spareMax) }

// returnAt returns the time at which the next waiting call should ask again. The times of several calls are spread out.
// Such a time reserves nothing.
func (s State) returnAt(limit statechart.Limit, r request, noStarts bool) time.Time {
	at, every := r.now, time.Duration(0)
	if limit.Rate > 0 {
		every = period(limit) / time.Duration(limit.Rate)
		if noStarts && len(s.Starts) > 0 {
			at = s.Starts[0].Until.Add(period(limit))
		}
	}
	if limit.Concurrency > 0 { // Calls return a little faster than places become free, so that no place stays unused.
		every = max(every, returnEvery, s.CallTime/time.Duration(limit.Concurrency)*3/4)
	}
	return latest(at, s.ReturnAt).Add(every)
}

func (s *State) addStarts(added Lease) {
	s.Starts = append(s.Starts, added)
	slices.SortStableFunc(s.Starts, func(a, b Lease) int { return a.Until.Compare(b.Until) })
	for len(s.Starts) > startsMax {
		least := 0
		gap := func(i int) time.Duration { return s.Starts[i+1].Until.Sub(s.Starts[i].Until) }
		for i := range len(s.Starts) - 1 {
			if gap(i) < gap(least) {
				least = i
			}
		}
		s.Starts[least+1].Calls += s.Starts[least].Calls
		s.Starts = slices.Delete(s.Starts, least, least+1)
	}
}

func (s State) expireAt(limit statechart.Limit, now time.Time) time.Time {
	last := latest(now, s.ReturnAt)
	for _, l := range s.Starts {
		last = latest(last, l.Until.Add(period(limit)))
	}
	for _, l := range s.Holders {
		last = latest(last, l.Until)
	}
	return last.Add(expiryMargin)
}

func calls(leases []Lease) (sum int) {
	for _, l := range leases {
		sum += l.Calls
	}
	return sum
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// without returns a copy of the leases that leaves out the matching ones.
func without(leases []Lease, matches func(Lease) bool) []Lease {
	return slices.DeleteFunc(slices.Clone(leases), matches)
}
