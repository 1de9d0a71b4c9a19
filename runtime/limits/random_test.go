package limits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// TestLimitsHoldExactlyInRandomRuns plays processes that share one key of a limit, in virtual time. Processes crash and
// freeze between all steps. Writes arrive late or lose their answers. Each start and each moment is checked.
func TestLimitsHoldExactlyInRandomRuns(t *testing.T) {
	t.Parallel()
	runs := 10_000
	if testing.Short() {
		runs = 300
	}
	var starts, full, crowded, losses int
	for seed := range runs {
		r := newRun(uint64(seed))
		for range 1000 {
			r.step()
			if r.problem != "" {
				t.Fatalf("seed %d, limit %+v: %s", seed, r.limit, r.problem)
			}
		}
		starts, full, crowded, losses = starts+len(r.starts), full+r.full, crowded+r.crowded, losses+r.losses
	}
	t.Logf("%d runs, %d calls, %d of them reached the rate, %d the concurrency, %d lost leases", runs, starts, full, crowded, losses)
	if starts < 10*runs || full < runs/4 || crowded < runs || losses < runs/10 {
		t.Error("expected runs that reach both limits and lose leases")
	}
}

// run is one random run.
type run struct {
	*rand.Rand
	limit     statechart.Limit
	now       time.Time
	stored    State
	writes    []*write
	processes []*process
	names     int
	// starts holds the times of all calls. calling holds the calls that may still run. Their process may be dead.
	starts  []time.Time
	calling []*call
	// full and crowded count the starts that used the last free call of the rate and of the concurrency.
	full, crowded, losses int
	problem               string
}

// process is one process. Its fields do the work of Limiter.
type process struct {
	name        string
	share       share
	seen        State
	took        time.Duration
	sent        *write
	reserved    []*call
	calling     []*call
	frozenUntil time.Time
}

type call struct {
	process    *process
	startUntil time.Time
	losses     int
	// until is the end of the lease of a dead process; zero while the process lives.
	until time.Time
}

// write is a request on its way.
type write struct {
	sentAt, appliedAt, answeredAt time.Time
	previous                      string
	next                          State
	granted                       grant
	// answer is what the process receives; nil before the write has been applied.
	answer *State
}

func newRun(seed uint64) *run {
	r := &run{Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_000_000, 0)}
	r.limit = statechart.Limit{Name: "bank"}
	if r.chance(0.8) {
		r.limit.Rate, r.limit.Per = 1+r.IntN(15), time.Duration(1+r.IntN(20_000))*time.Millisecond
	}
	if r.chance(0.1) {
		r.limit.Rate, r.limit.Per = 40, time.Minute // More leases than an item keeps.
	}
	if r.limit.Rate == 0 || r.chance(0.7) {
		r.limit.Concurrency = 1 + r.IntN(8)
	}
	for range 1 + r.IntN(5) {
		r.processes = append(r.processes, r.process())
	}
	return r
}

func (r *run) chance(p float64) bool { return r.Float64() < p }

func (r *run) upTo(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (r *run) process() *process {
	r.names++
	return &process{name: fmt.Sprint("process ", r.names)}
}

// step advances the time and lets one process take one step.
func (r *run) step() {
	jump := 20 * time.Millisecond
	if r.chance(0.03) {
		jump = 8 * time.Second
	}
	r.advance(r.upTo(jump))
	i := r.IntN(len(r.processes))
	p := r.processes[i]
	switch {
	case r.chance(0.005):
		r.crash(i)
	case p.frozenUntil.After(r.now):
	case r.chance(0.01):
		p.frozenUntil = r.now.Add(r.upTo(90 * time.Second))
	default:
		for range 1 + r.IntN(8) {
			r.act(p)
			r.checkConcurrency()
			r.advance(r.upTo(10 * time.Millisecond))
		}
	}
}

// advance applies the writes that arrive until the new time. Processes that are not frozen cancel calls in time.
func (r *run) advance(d time.Duration) {
	end := r.now.Add(d)
	slices.SortStableFunc(r.writes, func(a, b *write) int { return a.appliedAt.Compare(b.appliedAt) })
	for len(r.writes) > 0 && !r.writes[0].appliedAt.After(end) {
		w := r.writes[0]
		r.writes = r.writes[1:]
		if w.previous == r.stored.Write {
			r.stored = w.next
		}
		answer := r.stored
		w.answer = &answer
	}
	r.now = end
	if r.now.After(r.stored.ExpireAt) {
		r.stored = State{}
	}
	for _, p := range r.processes {
		if !p.frozenUntil.After(r.now) {
			r.loseIfDue(p)
		}
	}
}

func (r *run) loseIfDue(p *process) {
	if p.share.isLost(r.limit, r.now) {
		p.share.lose()
		p.calling = nil
		r.losses++
		r.calling = slices.DeleteFunc(r.calling, func(c *call) bool { return c.process == p })
	}
}

// crash replaces a process. A third party may work on its calls until their lease ends.
func (r *run) crash(i int) {
	for _, c := range r.processes[i].calling {
		c.until = r.processes[i].share.placesUntil
	}
	r.processes[i] = r.process()
}

// act does what Limiter does under its lock: nothing else happens while a request is on its way.
func (r *run) act(p *process) {
	if w := p.sent; w != nil {
		switch {
		case w.answer != nil && !w.answeredAt.IsZero() && !w.answeredAt.After(r.now):
			p.sent, p.seen, p.took = nil, *w.answer, r.now.Sub(w.sentAt)
			if w.answer.Write == w.next.Write {
				p.share.granted(r.limit, w.granted)
				r.reserve(p)
			}
		case r.now.Sub(w.sentAt) > requestMax:
			p.sent, p.took = nil, requestMax
		}
		return
	}
	switch r.IntN(9) {
	case 0, 1:
		if !r.reserve(p) {
			r.request(p, 1+r.IntN(4))
		}
	case 2, 3, 4, 5:
		r.start(p)
	case 6, 7:
		r.end(p)
	case 8:
		if p.share.running > 0 && r.limit.Concurrency > 0 {
			r.request(p, 0)
		}
	}
}

// reserve plays the last part of key.acquire.
func (r *run) reserve(p *process) bool {
	if !p.share.take(r.limit, r.now) {
		return false
	}
	p.reserved = append(p.reserved, &call{process: p, startUntil: p.share.startUntil, losses: p.share.losses})
	return true
}

// request plays key.request, with a random outcome of the write.
func (r *run) request(p *process, waiting int) {
	next, granted := p.seen.step(r.limit, p.share.request(r.limit, p.name, r.now, waiting, p.took))
	p.share.sending(granted)
	r.names++
	next.Write = fmt.Sprint(p.name, r.names)
	p.sent = &write{sentAt: r.now, previous: p.seen.Write, next: next, granted: granted, appliedAt: r.now.Add(r.upTo(40 * time.Millisecond))}
	if r.chance(0.1) {
		p.sent.appliedAt = r.now.Add(r.upTo(2 * time.Minute)) // The process stops waiting before most of these.
	}
	if r.chance(0.9) {
		p.sent.answeredAt = p.sent.appliedAt.Add(r.upTo(40 * time.Millisecond))
	}
	if r.chance(0.95) { // Otherwise the write never arrives.
		r.writes = append(r.writes, p.sent)
	}
}

// start plays Permit.Start. A call of a service takes up to a minute: see end.
func (r *run) start(p *process) {
	if len(p.reserved) == 0 {
		return
	}
	c := p.reserved[0]
	p.reserved = p.reserved[1:]
	if r.limit.Rate > 0 && r.now.After(c.startUntil) || c.losses != p.share.losses {
		p.share.end(r.limit, c.losses, time.Second)
		return
	}
	r.starts = append(r.starts, r.now)
	p.calling, r.calling = append(p.calling, c), append(r.calling, c)
	if n := len(r.starts) - r.limit.Rate; r.limit.Rate > 0 && n > 0 {
		switch gap := r.now.Sub(r.starts[n-1]); {
		case gap < r.limit.Per:
			r.problem = fmt.Sprintf("%d calls started within %v", r.limit.Rate+1, gap)
		case gap < r.limit.Per*3/2:
			r.full++
		}
	}
}

// end is the end of a call, or of a reserved call that is not needed.
func (r *run) end(p *process) {
	if len(p.calling) == 0 || r.chance(0.3) {
		if len(p.reserved) > 0 {
			c := p.reserved[0]
			p.reserved = p.reserved[1:]
			p.share.end(r.limit, c.losses, time.Second)
		}
		return
	}
	i := r.IntN(len(p.calling))
	c := p.calling[i]
	p.calling = slices.Delete(p.calling, i, i+1)
	r.calling = slices.DeleteFunc(r.calling, func(other *call) bool { return other == c })
	if p.share.end(r.limit, c.losses, time.Second) {
		r.request(p, 0)
	}
}

// checkConcurrency counts the calls at this moment. A call of a dead or frozen process counts until its lease ends.
func (r *run) checkConcurrency() {
	count := 0
	for _, c := range r.calling {
		until := c.until
		if until.IsZero() {
			until = c.process.share.placesUntil
		}
		if until.After(r.now) {
			count++
		}
	}
	switch limit := r.limit.Concurrency; {
	case limit > 0 && count > limit:
		r.problem = fmt.Sprintf("%d calls run at once", count)
	case limit > 0 && count == limit:
		r.crowded++
	}
}
