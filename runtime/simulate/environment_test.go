package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// The processes of a simulation.

// outdated reports whether a process was begun before the deployment and gets no more work: a minute later, none does.
func (e *environment) outdated() bool {
	s := e.simulation
	return s.plan.deploy > 0 && e.begun.Before(s.deployAt.Add(time.Minute)) && time.Now().After(s.deployAt.Add(time.Minute))
}

// historyMax keeps the whole history of each instance of a simulation.
const historyMax = 100_000

// consumer starts a process that runs the loop.
func (s *simulation) consumer(process string, now func() time.Time) lambda.Handler {
	config := s.client(process)
	queues := sqs.NewFromConfig(config)
	timers, err := schedule.NewTimers(schedule.NewDelayQueue(queues, s.delayURL, now), scheduler.NewFromConfig(config),
		schedule.SchedulerConfig{QueueARN: "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + delayName, RoleARN: anyRole})
	if err != nil {
		s.t.Error(err)
	}
	states := sfn.NewFromConfig(config)
	workflows, err := sfncallback.NewWorkflows(states, flows)
	if err != nil {
		s.t.Error(err)
	}
	loop, err := durable.New(s.hostedBy(process), durable.Ports{
		Store:  dynamostore.New(dynamodb.NewFromConfig(config), table),
		Queue:  sqsqueue.New(queues, s.queueURLs[0], s.deadLetterURL),
		Timers: timers,
		Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: s.acknowledger(queues),
	}, durable.Config{Logger: slog.New(traced{slog.DiscardHandler, s.director, process}), Now: now, HistoryMax: historyMax, SnapshotBytesMax: snapshotBytesMax})
	if err != nil {
		s.t.Error(err)
	}
	return lambda.NewHandler(sqsqueue.Handler(loop))
}

// acknowledger returns what takes messages off the first queue early, nil if nothing does.
func (s *simulation) acknowledger(client *sqs.Client) durable.Acknowledger {
	if s.plan.acknowledgesLate {
		return nil
	}
	return sqsqueue.NewAcknowledger(client, s.queueURLs[0])
}

// traced puts what a process warns of into the trace of a run that is the only one.
type traced struct {
	slog.Handler
	director *director
	process  string
}

func (h traced) Enabled(_ context.Context, level slog.Level) bool {
	return *simulationRuns == 1 && level >= slog.LevelWarn
}

func (h traced) Handle(_ context.Context, r slog.Record) error {
	text := h.process + " says: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.director.tell("%s", text)
	return nil
}

func (h traced) WithAttrs([]slog.Attr) slog.Handler { return h }

// forwarder starts a process of the delay queue's function.
func (s *simulation) forwarder(process string, now func() time.Time) lambda.Handler {
	queues := sqs.NewFromConfig(s.client(process))
	forwarder := schedule.NewForwarder(schedule.NewDelayQueue(queues, s.delayURL, now), sqsqueue.New(queues, s.queueURLs[0], ""))
	return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forwarder.Forward))
}

// executions starts a process of the function that hears of the ends of executions.
func (s *simulation) executions(process string, _ func() time.Time) lambda.Handler {
	config := s.client(process)
	queue := sqsqueue.New(sqs.NewFromConfig(config), s.queueURLs[0], "")
	forwarder := sfncallback.NewForwarder(sfn.NewFromConfig(config), queue, slog.New(slog.DiscardHandler))
	return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forwarder.Forward))
}

// environment is an execution environment of a Lambda function, whose process can die, or freeze and go on
// when nobody expects it.
type environment struct {
	simulation *simulation
	queue      string
	start      func(process string, now func() time.Time) lambda.Handler

	process string
	begun   time.Time
	handler lambda.Handler
	died    chan struct{}
}

// processKey is the key of a context's process name.
type processKey struct{}

// Invoke implements awslocal.Invoker.
func (e *environment) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	s := e.simulation
	if e.queue != delayName && e.queue != executionsName {
		var batch events.SQSEvent
		if err := json.Unmarshal(payload, &batch); err != nil {
			return nil, err
		}
		s.ledger.accept(batch)
	}
	if gone, stuck := s.director.state(e.process); e.process == "" || gone || stuck || e.outdated() {
		e.begin()
	}
	type answer struct {
		payload []byte
		err     error
	}
	process, answers := e.process, make(chan answer, 1)
	go func() {
		payload, err := e.handler.Invoke(context.WithValue(ctx, processKey{}, process), payload)
		answers <- answer{payload, err}
	}()
	select {
	case a := <-answers:
		if gone, _ := s.director.state(process); !gone {
			return a.payload, a.err
		}
	case <-e.died:
	case <-ctx.Done():
		if _, stuck := s.director.state(process); !stuck {
			s.director.die(process, "is killed at its time-out")
		}
		return nil, ctx.Err()
	}
	return nil, errors.New("the process exited before it answered")
}

// clockSkewMax is how far the clock of a process may be off.
const clockSkewMax = 2 * time.Second

// begin starts a process, whose clock may be off.
func (e *environment) begin() {
	s := e.simulation
	s.mu.Lock()
	s.processes[e.queue]++
	e.process = fmt.Sprintf("consumer%s-%d", strings.TrimSuffix(strings.TrimPrefix(e.queue, "settle"), ".fifo"), s.processes[e.queue])
	switch e.queue {
	case delayName:
		e.process = fmt.Sprintf("forwarder-%d", s.processes[e.queue])
	case executionsName:
		e.process = fmt.Sprintf("executions-%d", s.processes[e.queue])
	}
	s.mu.Unlock()
	rng := rand.New(rand.NewPCG(s.seed, digestOf(e.process)))
	var skew time.Duration
	if s.plan.skewed {
		skew = time.Duration(rng.Int64N(int64(2*clockSkewMax))) - clockSkewMax
	}
	died := make(chan struct{})
	e.died, e.begun = died, time.Now()
	s.director.mu.Lock()
	s.director.onDie[e.process] = func() { close(died) }
	s.director.mu.Unlock()
	e.handler = e.start(e.process, func() time.Time { return time.Now().Add(skew).Truncate(time.Millisecond) })
}
