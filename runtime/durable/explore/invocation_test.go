package explore_test

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// fault is the outcome of a call.
type fault string

const (
	proceeds fault = ""
	noEffect fault = "has no effect"
	lost     fault = "loses its answer"
	// dies ends the process after the call. Dying before a call is the same as dying after the previous one.
	dies fault = "and the process dies"
	// freezes stops the process before the call until other processes have received its messages.
	freezes fault = "finds the process frozen"
	// doubled makes an operator's call twice: the SDK repeats a call whose answer was lost.
	doubled fault = "is made twice"
)

// killer is the name of the call of the service that always kills its process.
const killer = "Kill"

// faultsOf returns the possible outcomes of a call.
func faultsOf(name string) []fault {
	switch name {
	case "Get", "Put":
		return []fault{proceeds}
	case "Load", "Serve", "Describe":
		return []fault{proceeds, noEffect, dies, freezes}
	case "Acknowledge", "Delay":
		return []fault{proceeds, noEffect, dies}
	case killer:
		return []fault{proceeds}
	default:
		return []fault{proceeds, noEffect, lost, dies, freezes}
	}
}

// process is one invocation of a Lambda function. It implements the loop's ports. Its calls wait until the scheduler lets
// them proceed, one at a time.
type process struct {
	w    *world
	d    *decisions
	x    *search
	mu   sync.Mutex
	wait []*request
	// calls counts the calls by name, so that each call has a unique name.
	calls        map[string]int
	cancel       context.CancelFunc
	dead, frozen bool
	// now is the world's clock in nanoseconds since 1970, as the loop sees it. A timer of the loop may read it at any time.
	now atomic.Int64
	// depth counts the processes that are frozen or paused while this one runs.
	depth int
	// command is set in the process of an operator.
	command *command
}

// request is a waiting call.
type request struct {
	group, name string
	do          func(*world) error
	answer      chan error
}

type processKey struct{}

// pausesMax is more than the number of pauses in any invocation.
const pausesMax = 100

func (p *process) call(group, name string, do func(*world) error) error {
	r := &request{group, name, do, make(chan error, 1)}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errDead
	}
	p.wait = append(p.wait, r)
	p.mu.Unlock()
	return <-r.answer
}

// configOf returns the loop's limits in a scenario.
func (s *scenario) configOf(p *process) durable.Config {
	limit := cmp.Or(s.limit, 2)
	var lanes map[string]string
	if s.lanes {
		lanes = queuesOfLanes
	}
	return durable.Config{
		Lanes: lanes,
		Now:   func() time.Time { return time.Unix(0, p.now.Load()).UTC() }, RetentionMin: retention, Logger: slog.New(slog.DiscardHandler),
		AttemptsMax: limit, AbandonedMax: limit, ConflictsMax: 1, ServicesMax: 2, HistoryMax: 1 + 7*min(1, s.left.Commands), DeniedWaitMax: time.Second,
		// The loop applies an event again if its ID is forgotten. This is documented, so the search does not look for it.
		RecentEventsMax: cmp.Or(s.recent, 8), SendersMax: 1, FailedEffectsMax: limit, OutboxMax: limit, RefusalsMax: limit, AloneAfter: 1,
		SlowAfter: time.Nanosecond, HopsMax: cmp.Or(s.hops, 8),
	}
}

// handle runs an invocation on a batch.
func (x *search) handle(w *world, d *decisions, batch []durable.Delivery, depth int) {
	p, ctx := x.newProcess(w, d, depth)
	ports := durable.Ports{Store: p, Queue: p, Timers: p, Tokens: p, Executions: p}
	if w.scenario.left.Copies > 0 {
		ports.Cache = p
	}
	if w.scenario.early {
		ports.Acknowledger = p
	}
	loop, err := durable.New(x.hostsOf(w, d), ports, w.scenario.configOf(p))
	if err != nil {
		panic(err)
	}
	var again []string
	p.run(func() { again = loop.Handle(ctx, batch) })
	p.acknowledge(batch, again)
}

// newProcess returns a process, and the context that ends with it.
func (x *search) newProcess(w *world, d *decisions, depth int) (*process, context.Context) {
	p := &process{w: w, d: d, x: x, calls: map[string]int{}, depth: depth}
	p.now.Store(w.clock.UnixNano())
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), processKey{}, p))
	p.cancel = cancel
	return p, ctx
}

// run does the work of a process, and decides the outcomes of its calls.
func (p *process) run(work func()) {
	defer p.cancel()
	done := make(chan struct{})
	go func() {
		work()
		close(done)
	}()
	for {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
			p.step()
		}
	}
}

// hostsOf returns the hosted machines of a process. After a deployment, old processes may run for a while.
func (x *search) hostsOf(w *world, d *decisions) *durable.Machines {
	switch {
	case !w.deployed:
		return x.hosts[0]
	case w.left.Olds > 0 && d.allow("by an old process"):
		w.left.Olds--
		return x.hosts[0]
	}
	return x.hosts[1]
}

// acknowledge ends the invocation. Lambda deletes all messages except the ones in `again`.
func (p *process) acknowledge(batch []durable.Delivery, again []string) {
	if p.dead {
		return
	}
	if p.w.left.Faults > 0 && p.d.allow(p.label("the acknowledgement is lost")) {
		p.w.left.Faults--
		return
	}
	p.w.remove(slices.DeleteFunc(batch, func(d durable.Delivery) bool { return slices.Contains(again, d.MessageID) }))
}

// label returns the name of a decision, with a prefix in nested invocations.
func (p *process) label(text string) string {
	return strings.Repeat("> ", p.depth) + text
}

// next chooses the next call among those that wait. Groups run concurrently, so the search may use a pause to let the
// last group go first.
func (p *process) next() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortStableFunc(p.wait, func(a, b *request) int { return cmp.Compare(a.group, b.group) })
	i := 0
	if last := p.wait[len(p.wait)-1]; last.group != p.wait[0].group && p.w.left.Pauses > 0 && p.depth == 0 && p.d.allow(p.label(p.nameOf(last)+" goes first")) {
		p.w.left.Pauses--
		i = len(p.wait) - 1
	}
	r := p.wait[i]
	p.wait = slices.Delete(p.wait, i, i+1)
	return r
}

// answer ends a call, after it has set the time that the loop sees.
func (p *process) answer(r *request, err error) {
	p.now.Store(p.w.clock.UnixNano())
	r.answer <- err
}

// nameOf returns the name of a call. A repeated name gets a number.
func (p *process) nameOf(r *request) string {
	name := r.name + " " + r.group
	if n := p.calls[name]; n > 0 {
		name += " " + strconv.Itoa(n+1)
	}
	return name
}

// let performs a waiting call on the world.
func (p *process) let(r *request) error {
	p.calls[r.name+" "+r.group]++
	p.x.calls++
	if *callsFlag {
		p.d.said = append(p.d.said, p.label("("+r.name+" "+r.group+")"))
	}
	return r.do(p.w)
}

// step takes the next call and decides its outcome.
func (p *process) step() {
	p.mu.Lock()
	waiting := len(p.wait)
	p.mu.Unlock()
	if waiting == 0 { // The loop pauses between two attempts to take back the count of a try.
		if p.calls["pause"]++; p.calls["pause"] > pausesMax {
			panic("the loop waits for something other than a port")
		}
		time.Sleep(time.Second)
		return
	}
	if s := p.w.scenario; s.early && waiting == 1 && p.calls["a second"] == 0 && p.d.allow(p.label("a second passes")) {
		p.calls["a second"]++
		time.Sleep(time.Second)
		return
	}
	r := p.next()
	name := p.nameOf(r)
	if p.w.left.Pauses > 0 && p.depth == 0 && p.command == nil && p.d.allow(p.label(name+" waits")) {
		p.w.left.Pauses--
		p.frozen = true
		p.meanwhile(0)
	}
	p.interleave(name)
	what := p.decide(r, name)
	switch what {
	case proceeds:
		p.answer(r, p.let(r))
	case noEffect, lost:
		if r.name == "Serve" { // Only a failed service is to blame. A failed call of AWS counts neither as a try nor as an attempt.
			p.w.facts["blame "+r.group]++
		}
		if what == lost {
			_ = p.let(r)
		}
		p.calls[r.name+" "+r.group] += map[fault]int{noEffect: 1}[what]
		p.answer(r, errFault)
	case doubled:
		_ = p.let(r)
		p.answer(r, p.let(r))
	case dies:
		_ = p.let(r)
		p.blame(r)
		p.die(r)
	case freezes:
		p.blame(r)
		p.w.facts["freezes"]++
		p.frozen = true
		p.w.clock = p.w.clock.Add(visibilityTimeout + time.Second)
		p.meanwhile(1 << 62)
		p.answer(r, p.let(r))
	}
}

func (p *process) decide(r *request, name string) fault {
	if r.name == killer {
		return dies
	}
	options := faultsOf(r.name)
	if p.command != nil && r.name == "Commit" {
		options = append(options, doubled)
	}
	if p.w.left.Faults == 0 {
		return proceeds
	}
	if p.depth > 0 {
		options = slices.DeleteFunc(options, func(f fault) bool { return f == freezes })
	}
	what := options[p.d.pick(len(options), func(i int) string { return p.label(name + " " + string(options[i])) })]
	if what != proceeds {
		p.w.left.Faults--
	}
	return what
}

// blame records whose code was running when the process died or froze.
func (p *process) blame(r *request) {
	if p.command == nil {
		p.w.facts["blame "+p.others(r)]++
	}
}

// others lets calls of other groups proceed before the process dies or freezes. It returns the group to blame.
func (p *process) others(r *request) (blamed string) {
	for {
		synctest.Wait()
		p.mu.Lock()
		i := slices.IndexFunc(p.wait, func(o *request) bool { return o.group != r.group })
		if i < 0 {
			p.mu.Unlock()
			return r.group
		}
		other := p.wait[i]
		p.mu.Unlock()
		name := p.nameOf(other)
		options := 3
		if r.name == killer {
			options = 2 // The killer itself is to blame, not the other group.
		}
		switch p.d.pick(options, func(i int) string { return p.label([]string{"", name + " proceeds", name + " is to blame"}[i]) }) {
		case 0:
			return r.group
		case 1:
			p.mu.Lock()
			p.wait = slices.Delete(p.wait, i, i+1)
			p.mu.Unlock()
			p.answer(other, p.let(other))
		case 2:
			return other.group
		}
	}
}

// die ends the process. Its calls fail, and its batch is not acknowledged.
func (p *process) die(r *request) {
	p.mu.Lock()
	p.dead = true
	left := slices.Concat(p.wait, []*request{r})
	p.wait = nil
	p.mu.Unlock()
	p.cancel()
	for _, waiting := range left {
		p.answer(waiting, errDead)
	}
}

// meanwhile runs other actions while the process is frozen or paused, within the given time.
func (p *process) meanwhile(within time.Duration) {
	w := p.w
	for range p.x.nested {
		_, free := w.lanes()
		until := w.clock.Add(min(within, 1<<61))
		can := slices.DeleteFunc(p.x.actions(w, p.depth+1), func(a action) bool {
			return a.at.After(until) || slices.ContainsFunc(a.lanes, func(l string) bool { return free[l].After(until) })
		})
		is := p.d.pick(len(can)+1, func(i int) string { return p.label("meanwhile " + can[i-1].name) })
		if is == 0 {
			return
		}
		can[is-1].do(w, p.d)
	}
}
