package simulate_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/infra/awslocal"
)

// director lets the calls of a simulation reach AWS one at a time. Its seed decides the order and the faults: whenever
// all goroutines of the bubble wait, the director picks one pending call and its fault. So the same seed repeats a run.
type director struct {
	cloud *awslocal.Cloud
	// onCall is called for each call that took effect.
	onCall func(takenCall)
	wake   chan struct{}

	seed uint64

	mu      sync.Mutex
	rng     *rand.Rand
	pending []*pendingCall
	// rate is the probability that a fault hits a call, and `left` is the number of remaining faults.
	rate   float64
	left   int
	faults int // number of faults so far
	// plan is the plan of the run: the aim of its faults, missing permissions, and strains.
	plan plan
	// parks reports for each process whether its last call parked a message.
	parks map[string]bool
	// deliveredLeft was the number of remaining faults when the first batch at deliveredAt arrived. All batches of that
	// instant use this number, because the order of the pollers within an instant is random.
	deliveredAt   time.Time
	deliveredLeft int
	dead          map[string]bool
	frozen        map[string]time.Time // end of the freeze, by process
	onDie         map[string]func()
	// outages maps services to the end of their outage. Only the test's own calls succeed until then.
	outages map[string]time.Time
	// `partial` holds, for each service, the time until which half of its writes fail. `killing` is the time until which
	// the director kills consumers.
	partial map[string]time.Time
	killing time.Time
	// denied maps operations to the time until which consumers lack the permission for them.
	denied map[string]time.Time
	counts map[string]int // number of faults, by kind
	// calls counts the calls. `trace` lists the events of the run. `unsorted` holds the lines since the last call. They
	// are sorted before they enter the trace, because their order within one instant is random.
	calls           int
	trace, unsorted []string
}

// pendingCall is a call that waits for the director.
type pendingCall struct {
	process, target string
	// `about` distinguishes calls of the same target.
	about uint64
	body  []byte
	made  time.Time
	// ready is the earliest time at which the call reaches AWS; zero until the director has seen it.
	ready   time.Time
	granted chan fault
}

func (c *pendingCall) isConsumers() bool { return strings.HasPrefix(c.process, "consumer") }

func (c *pendingCall) isProducers() bool { return strings.HasPrefix(c.process, "producer") }

func (c *pendingCall) isOperators() bool { return strings.HasPrefix(c.process, "operator") }

// `slow` delays a call on its way to AWS. The client may give up earlier. `outage` makes a service refuse all calls for
// a while.
const (
	slow fault = 100 + iota
	outage
	// `hang` means that a call has no effect and gets no response. `hangAfter` means that a call takes effect but gets
	// no response.
	hang
	hangAfter
	// These faults last for hours: all calls of a service fail, half of its writes fail, or consumers die.
	longOutage
	partialOutage
	killing
	// deny takes a permission away from the consumers, for longer than they retry a denied effect.
	deny
)

var (
	errBroken = errors.New("the connection broke")
	errDead   = errors.New("the process is dead")
	// errAttemptTimedOut ends an attempt of a call that has its own timeout.
	errAttemptTimedOut = errors.New("the attempt timed out")
)

func newDirector(cloud func(awslocal.Config) *awslocal.Cloud, seed uint64, rate float64, faults int) *director {
	d := &director{
		seed: seed, wake: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(seed, 2)), rate: rate, left: faults,
		dead: map[string]bool{}, parks: map[string]bool{}, frozen: map[string]time.Time{}, onDie: map[string]func(){}, outages: map[string]time.Time{}, partial: map[string]time.Time{}, denied: map[string]time.Time{}, counts: map[string]int{},
	}
	d.cloud = cloud(awslocal.Config{
		Fault: func(call awslocal.Call) awslocal.Fault {
			return awslocal.Fault{Throttled: call.Client == throttled, Lag: d.lagOf(call)}
		},
		DeliveryFault: d.ofDelivery,
		StatusChanges: executionsName, StatusChangeFault: d.ofStatusChange,
	})
	return d
}

// invocation is the target of the pending calls that start an invocation of a function. Of the director's faults, only
// `slow` hits them. For the faults of their batches, see ofDelivery.
const invocation = "lambda.Invoke"

// throttled is the name of the client that AWS throttles.
const throttled = "throttled"

// direct lets calls through until ctx ends.
func (d *director) direct(ctx context.Context) {
	for {
		synctest.Wait()
		call, kind, next := d.choose(time.Now())
		if call != nil {
			call.granted <- kind
			continue
		}
		var due <-chan time.Time
		if !next.IsZero() {
			timer := time.NewTimer(time.Until(next))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-d.wake:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// choose picks a call and its fault. `next` is the time at which the next call becomes ready.
func (d *director) choose(now time.Time) (call *pendingCall, kind fault, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortStableFunc(d.pending, func(a, b *pendingCall) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.target, b.target), cmp.Compare(a.about, b.about), a.ready.Compare(b.ready))
	})
	var eligible []*pendingCall
	for _, c := range d.pending {
		if c.ready.IsZero() {
			c.ready = now.Add(d.latencyOf(c))
			if d.plan.aim.kinds == nil && d.hits(0.3) {
				d.count(slow, c)
				c.ready = now.Add(time.Duration(1+d.rng.IntN(25)) * time.Second)
			}
		}
		ready := c.ready
		if thaw, ok := d.frozen[c.process]; ok && thaw.After(ready) && !d.dead[c.process] {
			ready = thaw
		}
		switch {
		case d.dead[c.process] || !ready.After(now):
			eligible = append(eligible, c)
		case next.IsZero() || ready.Before(next):
			next = ready
		}
	}
	if len(eligible) == 0 {
		return nil, 0, next
	}
	call = eligible[d.rng.IntN(len(eligible))]
	if d.dead[call.process] {
		d.remove(call)
		return call, dieBefore, next
	}
	kind = d.draw(call)
	d.last(now, call, kind)
	if lasting := d.lasting(now, call); lasting != 0 {
		d.remove(call)
		return call, lasting, next
	}
	if kind == freeze {
		thaw := now.Add(time.Duration(d.plan.horizon*(30+d.rng.IntN(180))) * time.Second)
		d.frozen[call.process] = thaw
		d.note(now, call, "frozen until "+thaw.Format(time.TimeOnly))
		return d.chooseAgain(now)
	}
	d.remove(call)
	d.parks[call.process] = bytes.Contains(call.body, []byte(deadLetterName))
	what := ""
	if kind != 0 {
		what = nameOf(kind)
	}
	d.note(now, call, what)
	if kind == dieBefore || kind == dieAfter {
		d.kill(call.process)
	}
	return call, kind, next
}

// chooseAgain makes another choice after a process was frozen.
func (d *director) chooseAgain(now time.Time) (*pendingCall, fault, time.Time) {
	d.mu.Unlock()
	defer d.mu.Lock()
	return d.choose(now)
}

// hits draws whether a fault hits. The probability is the run's rate times `share`.
func (d *director) hits(share float64) bool {
	return d.left > 0 && d.rng.Float64() < d.rate*share
}

func nameOf(kind fault) string {
	if name := map[fault]string{slow: "slow", outage: "outage", longOutage: "long outage", partialOutage: "partial outage", killing: "killing", hang: "hang", hangAfter: "hang after", deny: "permission missing"}[kind]; name != "" {
		return name
	}
	return kind.String()
}

func (d *director) count(kind fault, call *pendingCall) {
	name := nameOf(kind)
	d.counts[name]++
	d.counts[name+" "+call.target]++
	d.left--
	d.faults++
}

// tally counts a fault of the kind if `hit` is true.
func (d *director) tally(kind string, hit bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hit && kind != "" {
		d.counts[kind]++
	}
}

func (d *director) remove(call *pendingCall) {
	d.pending = slices.DeleteFunc(d.pending, func(c *pendingCall) bool { return c == call })
}

func (d *director) note(now time.Time, call *pendingCall, what string) {
	d.say(now, fmt.Sprintf("%-12s %-24s %08x %s", call.process, call.target, call.about&0xffffffff, what))
}

// callsMax ends a run that never comes to rest. It is far above the calls of long runs: the run of seed 282717 has a
// hundred children with a failing service, and makes 16,400 calls.
const callsMax = 100_000

// say adds a line to the trace. The caller holds d.mu.
func (d *director) say(now time.Time, line string) {
	d.flush()
	if d.calls++; d.calls > callsMax {
		panic(fmt.Sprintf("the run of seed %d has made %d calls; its first and last:\n%s\n%s", d.seed, callsMax, strings.Join(d.trace[:200], "\n"), strings.Join(d.trace[len(d.trace)-60:], "\n")))
	}
	line = stamp(now) + line
	d.trace = append(d.trace, line)
}

// flush moves the unsorted lines into the trace, in an order that the seed decides. The caller holds d.mu.
func (d *director) flush() {
	slices.Sort(d.unsorted)
	d.trace = append(d.trace, d.unsorted...)
	d.unsorted = nil
}

// addTrace adds a line that does not come from the director.
func (d *director) addTrace(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsorted = append(d.unsorted, stamp(time.Now())+fmt.Sprintf(format, args...))
}

func stamp(now time.Time) string { return now.Format("2006-01-02 15:04:05.000 ") }

func digestOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	return h.Sum64()
}

// invoke waits until the director lets an invocation of a queue's function start.
func (d *director) invoke(ctx context.Context, queue string, payload []byte) error {
	call := &pendingCall{process: "lambda", target: invocation, about: batchDigest(queue, payload), granted: make(chan fault, 1)}
	d.mu.Lock()
	d.pending = append(d.pending, call)
	d.wakeUp()
	d.mu.Unlock()
	select {
	case <-call.granted:
		return nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		d.remove(call)
		return ctx.Err()
	}
}

// batchDigest returns a digest that is unique among concurrent batches. It covers the queue, and the sequence number,
// sending time and body of each message.
func batchDigest(queue string, payload []byte) uint64 {
	var batch events.SQSEvent
	_ = json.Unmarshal(payload, &batch)
	text := queue
	for _, m := range batch.Records {
		text += fmt.Sprint(" ", m.Attributes["SequenceNumber"], m.Attributes["SentTimestamp"], m.Body)
	}
	return digestOf(text)
}

// ofDelivery returns the fault for a batch that Lambda received. It depends only on the batch, because pollers of
// several queues may ask at the same instant.
func (d *director) ofDelivery(delivery awslocal.Delivery) awslocal.DeliveryFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if !now.Equal(d.deliveredAt) {
		d.deliveredAt, d.deliveredLeft = now, d.left
	}
	if d.deliveredLeft <= 0 {
		return awslocal.DeliveryFault{}
	}
	key := fmt.Sprint(delivery.Queue, delivery.Bodies, now.UnixNano(), d.rate)
	rng := rand.New(rand.NewPCG(digestOf(key), 3))
	if rng.Float64() >= d.rate {
		return awslocal.DeliveryFault{}
	}
	d.left--
	d.faults++
	if rng.IntN(3) == 0 {
		d.counts[countLost]++
		d.unsorted = append(d.unsorted, stamp(now)+"delivery of "+delivery.Queue+" lost")
		return awslocal.DeliveryFault{Lost: true}
	}
	d.counts[countUnacked]++
	d.unsorted = append(d.unsorted, stamp(now)+"acknowledgement to "+delivery.Queue+" lost")
	return awslocal.DeliveryFault{AcknowledgementLost: true}
}

// ofStatusChange returns the fault for an EventBridge event about an execution.
func (d *director) ofStatusChange(change awslocal.StatusChange) awslocal.StatusChangeFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	rng := rand.New(rand.NewPCG(digestOf(fmt.Sprint(change.Name, change.Status, d.rate)), 4))
	if d.left <= 0 || rng.Float64() >= 3*d.rate {
		// Executions last long, and the run may have no faults left when they end. So some events get lost even then.
		if d.rate == 0 || rng.IntN(20) > 0 {
			return awslocal.StatusChangeFault{}
		}
		d.faults++
		d.counts[countBridge]++
		return awslocal.StatusChangeFault{Lost: true}
	}
	d.left--
	d.faults++
	d.counts[countBridge]++
	switch rng.IntN(3) {
	case 0:
		return awslocal.StatusChangeFault{Lost: true}
	case 1:
		return awslocal.StatusChangeFault{Duplicated: true}
	default:
		return awslocal.StatusChangeFault{Late: time.Duration(1+rng.IntN(900)) * time.Second}
	}
}
