package simulate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/internal/readcache"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// This file starts the processes of a simulation.

// historyMax keeps the whole history of each instance in a simulation.
const historyMax = 100_000

// consumer starts a process that runs the loop.
func (s *simulation) consumer(process string, now func() time.Time) lambda.Handler {
	config := s.by("consumer", process)
	queues := sqs.NewFromConfig(config)
	_, timers := s.timers(config, now)
	states := sfn.NewFromConfig(config)
	workflows, err := sfncallback.NewWorkflows(states, flows)
	if err != nil {
		s.t.Error(err)
	}
	loops := s.plan.config
	loops.Logger, loops.Now, loops.HistoryMax, loops.SnapshotBytesMax = slog.New(traced{slog.DiscardHandler, s, process}), now, historyMax, snapshotBytesMax
	if loops.ReceivesMax = s.plan.receivesMax; s.plan.retention > 0 {
		// Leave no outbox in an item. The queues keep messages for longer than RetentionMin, so the loop would drop the
		// outbox too early.
		loops.ReceivesMax = 1
	}
	loops.RetentionMin, loops.Observer.Committed = s.plan.retention, s.recorded.recorder.Committed
	machines := s.hostedBy(process)
	s.ledger.begin(process, machines == s.deployed)
	loop, err := durable.New(machines, durable.Ports{
		Store:  dynamostore.New(dynamodb.NewFromConfig(config), table),
		Queue:  sqsqueue.New(queues, s.queueURLs[0], s.deadLetterURL),
		Timers: timers,
		Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: s.acknowledger(queues), Cache: readcache.New(now, 0),
	}, loops)
	if err != nil {
		s.t.Error(err)
	}
	return lambda.NewHandler(sqsqueue.Handler(loop))
}

// acknowledger returns the early acknowledger of the first queue, or nil.
func (s *simulation) acknowledger(client *sqs.Client) durable.Acknowledger {
	if s.plan.acknowledgesLate {
		return nil
	}
	return sqsqueue.NewAcknowledger(client, s.queueURLs[0])
}

// traced adds a process's warnings to the trace if the test makes a single run. It counts the warnings that the loop
// cannot take back the count of a try.
type traced struct {
	slog.Handler
	simulation *simulation
	process    string
}

// Enabled implements slog.Handler. It drops the lines of dying processes. A seed cannot repeat them, because the
// goroutines of such a process end in any order.
func (h traced) Enabled(ctx context.Context, level slog.Level) bool {
	gone, _ := h.simulation.director.state(h.process)
	return level >= slog.LevelWarn && !gone && ctx.Err() == nil
}

func (h traced) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "cannot take back the count of a try") {
		h.simulation.count(countNotTakenBack, 1)
	}
	text := h.process + " says: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.simulation.countUnreadable(text)
	if *simulationRuns == 1 {
		h.simulation.director.addTrace("%s", text)
	}
	return nil
}

func (h traced) WithAttrs([]slog.Attr) slog.Handler { return h }

// timers returns the delay queue and the timers of a process.
func (s *simulation) timers(config aws.Config, now func() time.Time) (*schedule.DelayQueue, *schedule.Timers) {
	delays := schedule.NewDelayQueue(sqs.NewFromConfig(config), s.delayURL, now)
	return delays, newTimers(s.t, delays, config)
}

// newTimers returns the timers of a function, which use the delay queue.
func newTimers(t *testing.T, delays *schedule.DelayQueue, config aws.Config) *schedule.Timers {
	t.Helper()
	timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(config),
		schedule.SchedulerConfig{QueueARN: "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + delayName, RoleARN: anyRole})
	if err != nil {
		t.Error(err)
	}
	return timers
}

// forwarder starts a process of the delay queue's function.
func (s *simulation) forwarder(process string, now func() time.Time) lambda.Handler {
	config := s.by("delay", process)
	delays, timers := s.timers(config, now)
	forwarder := schedule.NewForwarder(delays, timers, sqsqueue.New(sqs.NewFromConfig(config), s.queueURLs[0], ""))
	return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forwarder.Forward))
}

// executions starts a process of the function that receives the events about ended executions.
func (s *simulation) executions(process string, _ func() time.Time) lambda.Handler {
	config := s.by("executions", process)
	queue := sqsqueue.New(sqs.NewFromConfig(config), s.queueURLs[0], "")
	forwarder := sfncallback.NewForwarder(sfn.NewFromConfig(config), queue, slog.New(slog.DiscardHandler))
	return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forwarder.Forward))
}

// function is a Lambda function with its execution environments. The simulation chooses the environment for an
// invocation while all other goroutines wait. A seed therefore repeats the choice.
type function struct {
	simulation *simulation
	queue      string
	start      func(process string, now func() time.Time) lambda.Handler

	mu    sync.Mutex
	begun int
	idle  []*environment
}

// environment is an execution environment. Its process can die, or freeze and continue unexpectedly.
type environment struct {
	number  int
	process string
	begun   time.Time
	handler lambda.Handler
	died    chan struct{}
}

// outdated reports whether an environment gets no more work because it started before the last deployment was complete.
// A deployment takes a minute. In that minute, environments of both versions start.
func (s *simulation) outdated(e *environment) bool {
	return s.deployments(time.Minute, time.Now()) > s.deployments(time.Minute, e.begun)
}

// processKey is the context key of the process's name.
type processKey struct{}

// Invoke implements awslocal.Invoker.
func (f *function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	s := f.simulation
	if err := s.director.invoke(ctx, f.queue, payload); err != nil {
		return nil, err
	}
	if f.queue != delayName && f.queue != executionsName {
		var batch events.SQSEvent
		if err := json.Unmarshal(payload, &batch); err != nil {
			return nil, err
		}
		s.ledger.accept(batch)
	}
	e := f.acquire()
	type answer struct {
		payload []byte
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		payload, err := e.handler.Invoke(context.WithValue(ctx, processKey{}, e.process), payload)
		answers <- answer{payload, err}
	}()
	select {
	case a := <-answers:
		if gone, _ := s.director.state(e.process); !gone {
			f.release(e)
			return a.payload, a.err
		}
	case <-e.died:
	case <-ctx.Done():
		if _, stuck := s.director.state(e.process); !stuck {
			s.director.die(e.process, countTimeOut)
		}
		return nil, ctx.Err()
	}
	return nil, errors.New("the process exited before it responded")
}

// startsBeside reports whether an environment starts although another is idle. It returns true for about half of the
// invocations during a deployment, in runs with the strain "fields". Then both builds get events in turn.
func (s *simulation) startsBeside() bool {
	now := time.Now()
	return s.plan.fields && s.deployments(0, now) > s.deployments(time.Minute, now) && digestOf(fmt.Sprint(s.seed, now.UnixNano()))%2 == 0
}

// acquire returns the first environment that is idle and alive, or starts one.
func (f *function) acquire() *environment {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = slices.DeleteFunc(f.idle, func(e *environment) bool {
		gone, stuck := f.simulation.director.state(e.process)
		return gone || stuck || f.simulation.outdated(e)
	})
	if len(f.idle) == 0 || f.simulation.startsBeside() {
		return f.startProcess()
	}
	e := slices.MinFunc(f.idle, func(a, b *environment) int { return cmp.Compare(a.number, b.number) })
	f.idle = slices.DeleteFunc(f.idle, func(other *environment) bool { return other == e })
	return e
}

func (f *function) release(e *environment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, e)
}

// clockSkewMax is the largest clock error of a process.
const clockSkewMax = 2 * time.Second

// startProcess starts a process, possibly with a clock error. The caller holds f.mu.
func (f *function) startProcess() *environment {
	s := f.simulation
	f.begun++
	e := &environment{number: f.begun, begun: time.Now(), died: make(chan struct{})}
	switch f.queue {
	case delayName:
		e.process = fmt.Sprintf("forwarder-%d", f.begun)
	case executionsName:
		e.process = fmt.Sprintf("executions-%d", f.begun)
	default:
		e.process = fmt.Sprintf("consumer%s-%d", strings.TrimSuffix(strings.TrimPrefix(f.queue, "settle"), ".fifo"), f.begun)
	}
	rng := rand.New(rand.NewPCG(s.seed, digestOf(e.process)))
	var skew time.Duration
	if s.plan.skewed {
		skew = time.Duration(rng.Int64N(int64(2*clockSkewMax))) - clockSkewMax
	}
	s.director.mu.Lock()
	s.director.onDie[e.process] = func() { close(e.died) }
	s.director.mu.Unlock()
	e.handler = f.start(e.process, func() time.Time { return time.Now().Add(skew).Truncate(time.Millisecond) })
	return e
}
