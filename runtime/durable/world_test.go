package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// queueARN is the queue of a world.
const queueARN = "arn:aws:sqs:eu-west-1:123456789012:events.fifo"

var (
	errFault = errors.New("injected fault")
	errDead  = errors.New("the process is dead")
)

// fault is the outcome of one call to a port.
type fault int

const (
	none fault = iota
	// failBefore fails the call before it takes effect. failAfter lets the call take effect, but loses the answer.
	failBefore
	failAfter
	// dieBefore and dieAfter end the process. All its later calls fail, and its batch is not acknowledged.
	dieBefore
	dieAfter
)

func (f fault) String() string {
	return []string{"none", "fail before", "fail after", "die before", "die after"}[f]
}

// world implements the loop's environment: store, FIFO queue with its Lambda poller, timers and third parties. It keeps
// records as JSON, so that the loop shares no memory with it. It uses the clock of the synctest bubble.
type world struct {
	machines *durable.Machines
	config   durable.Config
	// latency is the duration of an instance's calls. If it is nil, calls take no time.
	latency func(id string) time.Duration
	// hook returns the fault of a call such as "Commit order/1". If it is nil, all calls succeed.
	hook func(call string) fault
	// refuse returns an error for a call before it takes effect. If it is nil, no call fails this way.
	refuse   func(call string) error
	bytesMax int // the maximum size of a record's JSON; 0 means no limit
	// third holds the third parties by service.
	third map[string]service

	mu       sync.Mutex
	records  map[string]json.RawMessage
	revision map[string]int64
	parked   []parking
	delays   []time.Duration
	calls    []string
	served   []statechart.Call
	names    []string // the services of the calls in `served`, with their attempts
	emitted  []string
	// sends holds the last sends that do not fit into the records of their receivers.
	sends map[string]instances.LastSend
	// aliases maps aliases to their owners. `released` holds the aliases that other instances may claim.
	aliases, released map[string]string
	// cancels lets the loop cancel timers. A delay queue cannot do that.
	cancels bool
	// noTokens gives the loop no client for tasks.
	noTokens bool
	// workflows holds the waiting tasks by token.
	workflows map[string]*workflow
	// executions holds the started executions by ARN.
	executions map[string]*execution
	// refusal is the error of each attempt to start an execution. noExecutions gives the loop no client for executions.
	refusal      error
	noExecutions bool
	// acknowledger is the Acknowledger of the loop. If it is nil, all deliveries are acknowledged with their batch.
	acknowledger durable.Acknowledger
	queue
	ledger
	limitStates
}

type parking struct {
	durable.Delivery
	Reason string
}

// service makes one attempt to call a third party, see world.service.
type service func(ctx context.Context, call statechart.Call) (string, error)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{sends: map[string]instances.LastSend{}, aliases: map[string]string{}, released: map[string]string{}, workflows: map[string]*workflow{}, executions: map[string]*execution{}, records: map[string]json.RawMessage{}, revision: map[string]int64{}, third: map[string]service{}}
	w.sent, w.committed, w.performed = map[string]time.Time{}, map[string]string{}, map[string]int{}
	w.config = durable.Config{Now: time.Now, RetentionMin: time.Minute, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	machines, err := durable.NewMachines(w.order(), w.greeter(), w.boot())
	if err != nil {
		t.Fatal(err)
	}
	w.machines = machines
	return w
}

// process is one Lambda process. It implements the loop's ports on the world. Once it is dead, its calls fail.
type process struct {
	*world
	loop *durable.Loop
	// ctx ends with the process.
	ctx    context.Context
	cancel context.CancelFunc
	dead   bool
}

type processKey struct{}

// start starts a process whose invocation ends after the timeout.
func (w *world) start(timeout time.Duration) *process {
	p := &process{world: w}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	p.ctx, p.cancel = context.WithValue(ctx, processKey{}, p), cancel
	ports := durable.Ports{Store: p, Queue: p, Timers: p, Tokens: p, Executions: p, Acknowledger: w.acknowledger, Limiter: p.limiter()}
	if w.noExecutions {
		ports.Executions = nil
	}
	if w.noTokens {
		ports.Tokens = nil
	}
	loop, err := durable.New(w.machines, ports, w.config)
	if err != nil {
		panic(err)
	}
	p.loop = loop
	return p
}

// call runs one call on the world, or fails it with the fault of the hook.
func (p *process) call(ctx context.Context, name, id string, do func() error) error {
	if p.latency != nil && ctx.Value(sameRequest{}) == nil {
		time.Sleep(p.latency(id))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if name != "Acknowledge" && name != "Serve" { // The loop does not make these two calls.
		p.calls = append(p.calls, name+" "+id)
	}
	what := none
	if p.hook != nil {
		what = p.hook(name + " " + id)
	}
	switch what {
	case failBefore:
		return errFault
	case dieBefore:
		return p.die()
	case none, failAfter, dieAfter:
	}
	var err error
	if p.refuse != nil {
		err = p.refuse(name + " " + id)
	}
	if err == nil {
		err = do()
	}
	switch {
	case what == dieAfter:
		return p.die()
	case err == nil && what == failAfter:
		return errFault
	}
	return err
}

// die ends the process. The world must be locked.
func (p *process) die() error {
	p.dead = true
	p.cancel()
	return errDead
}

// kill ends the process of the service.
func kill(ctx context.Context) {
	p, _ := ctx.Value(processKey{}).(*process)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.die()
}

func (p *process) Load(ctx context.Context, id instances.ID) (record instances.Record, err error) {
	record.Instance = id
	err = p.call(ctx, "Load", id.String(), func() error {
		if stored, ok := p.records[id.String()]; ok {
			return json.Unmarshal(stored, &record)
		}
		return nil
	})
	return record, err
}

func (p *process) Commit(ctx context.Context, record instances.Record) error {
	id := record.Instance.String()
	return p.call(ctx, "Commit", id, func() error {
		if p.revision[id] != record.Revision-1 {
			return durable.ErrConflict
		}
		if err := p.storeIfFits(record); err != nil {
			return err
		}
		p.commit(record)
		return nil
	})
}

func (p *process) ClearOutbox(ctx context.Context, id instances.ID, revision int64, left durable.Left) error {
	return p.call(ctx, "ClearOutbox", id.String(), func() error {
		if p.revision[id.String()] != revision {
			return durable.ErrConflict
		}
		record := p.load(id.String())
		if record.Revision++; left.WithoutHistory {
			record.History = nil
		}
		record.Outbox, record.Tokens, record.Executions = left.Outbox, left.Tokens, left.Executions
		record.FailedEffects, record.DeniedSince, record.ExpireAt = left.FailedEffects, left.DeniedSince, left.ExpireAt
		return p.storeIfFits(record)
	})
}

func (p *process) KeepSends(ctx context.Context, receiver instances.ID, queue string, sends []instances.LastSend, _ time.Time) error {
	return p.call(ctx, "KeepSends", receiver.String(), func() error {
		for _, send := range sends {
			if key := fmt.Sprint(receiver, queue, send.Sender); send.After(p.sends[key]) {
				p.sends[key] = send
			}
		}
		return nil
	})
}

func (p *process) LastSend(ctx context.Context, receiver instances.ID, queue, sender string) (last instances.LastSend, ok bool, err error) {
	err = p.call(ctx, "LastSend", receiver.String(), func() error {
		last, ok = p.sends[fmt.Sprint(receiver, queue, sender)]
		return nil
	})
	return last, ok, err
}

func (p *process) Claim(ctx context.Context, alias string, id instances.ID, createdAt time.Time, revision int64) error {
	return p.call(ctx, "Claim", alias, func() error {
		if p.revision[id.String()] != revision {
			return durable.ErrConflict
		}
		owner := fmt.Sprint(id, " ", createdAt.UnixMilli())
		has, taken := p.aliases[alias]
		if taken && has != owner && p.released[alias] == "" {
			return durable.ErrAliasTaken
		}
		delete(p.released, alias)
		p.aliases[alias] = owner
		return nil
	})
}

func (p *process) Release(ctx context.Context, alias string, id instances.ID, createdAt, expireAt time.Time) error {
	return p.call(ctx, "Release", alias, func() error {
		if p.aliases[alias] == fmt.Sprint(id, " ", createdAt.UnixMilli()) && !slices.Contains(p.load(id.String()).Aliases, alias) {
			p.released[alias] = fmt.Sprint("until ", expireAt.UnixMilli())
		}
		return nil
	})
}

func (p *process) Send(ctx context.Context, message durable.Message) (messageID string, err error) {
	err = p.call(ctx, "Send", message.To.String(), func() error {
		p.perform(message)
		messageID = p.enqueue(message)
		return nil
	})
	return messageID, err
}

func (p *process) SendBatch(ctx context.Context, messages []durable.Message) []error {
	errs := make([]error, len(messages))
	for i, message := range messages {
		ctx := ctx
		if i > 0 {
			ctx = context.WithValue(ctx, sameRequest{}, true)
		}
		_, errs[i] = p.Send(ctx, message)
	}
	return errs
}

// sameRequest marks the context of all messages in a batch except the first, because a batch is one request.
type sameRequest struct{}

func (p *process) Schedule(ctx context.Context, at time.Time, message durable.Message) error {
	return p.call(ctx, "Schedule", message.To.String(), func() error {
		p.perform(message)
		p.schedule(at, message)
		return nil
	})
}

func (p *process) Cancel(ctx context.Context, deduplicationID string) error {
	if !p.cancels {
		return nil
	}
	return p.call(ctx, "Cancel", deduplicationID, func() error {
		p.scheduled = slices.DeleteFunc(p.scheduled, func(s scheduled) bool { return s.message.DeduplicationID == deduplicationID })
		return nil
	})
}

func (p *process) Park(ctx context.Context, d durable.Delivery, reason string) error {
	return p.call(ctx, "Park", d.Group, func() error {
		if !slices.ContainsFunc(p.parked, func(other parking) bool { return other.MessageID == d.MessageID }) {
			p.parked = append(p.parked, parking{d, reason})
		}
		return nil
	})
}

func (p *process) Delay(ctx context.Context, deliveries []durable.Delivery, wait time.Duration) error {
	return p.call(ctx, "Delay", deliveries[0].Group, func() error {
		p.delays = append(p.delays, wait)
		var errs []error
		for _, d := range deliveries {
			errs = append(errs, p.hide(d, wait))
		}
		return errors.Join(errs...)
	})
}

// load returns the stored record. The world must be locked or at rest.
func (w *world) load(id string) (record instances.Record) {
	if stored, ok := w.records[id]; ok {
		if err := json.Unmarshal(stored, &record); err != nil {
			panic(err)
		}
	}
	return record
}

func (w *world) store(record instances.Record) {
	stored, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	w.records[record.Instance.String()] = stored
	w.revision[record.Instance.String()] = record.Revision
}

// recent returns the record's event IDs without the digests of their bodies. It skips entries of events without an ID.
func recent(record instances.Record) (ids []string) {
	for _, entry := range record.RecentEvents {
		if !strings.HasPrefix(entry, "parked/") {
			ids = append(ids, entry[:strings.LastIndexByte(entry, '#')])
		}
	}
	return ids
}

// faults returns a hook with the fault for the nth call of a name, counted from 1.
func faults(plan map[string]fault) func(call string) fault {
	seen := map[string]int{}
	return func(call string) fault {
		seen[call]++
		return plan[fmt.Sprintf("%s #%d", call, seen[call])]
	}
}

// counted returns how many calls have the prefix.
func (w *world) counted(prefix string) (n int) {
	for _, call := range w.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// The defaults of Config.
const failedEffectsMax, sendersMax = 10, 50
