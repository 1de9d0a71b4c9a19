package simulate_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

var (
	simulationRuns    = flag.Int("simulate.runs", 0, "number of runs of TestSimulation (default 2000, with -short 40)")
	simulationSeed    = flag.Uint64("simulate.seed", 1, "seed of TestSimulation's first run, incremented for each further run")
	simulationRepeats = flag.Int("simulate.repeats", 6, "number of runs that TestASeedRepeatsItsRun repeats")
)

// stride returns how many calls apart a test injects its faults. With a stride of 1, the test injects a fault at each
// call.
func stride() int { return depth(8, 1) }

// costScale divides the number of events in the cost runs. The figures per event do not depend on it.
func costScale() int { return cmp.Or(*costScaleFlag, depth(100, 10)) }

// depth returns the depth of a test's search: smaller with -short, which `make test` and the race detector use.
func depth(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

// simulation is one run: random machines and events on the whole runtime, with the faults that its seed draws.
type simulation struct {
	t        *testing.T
	seed     uint64
	director *director
	lab      *lab
	// machines has the first versions of the machines, and `deployed` has the machines after the deployment. `versions`
	// has all versions, by machine ID.
	machines, deployed *durable.Machines
	versions           map[string][]durable.Machine
	deployAt           time.Time // guarded by mu
	store              *dynamostore.Store
	recorded           *recorded
	plan               plan
	ledger             ledger
	// operations holds the changes of operators, by operator. Each operator makes one change.
	operations map[string]*operated
	arrivals   map[string]string // the receiver of each send that a queue accepted, by event ID

	// untilStopped ends when an operator stops the consumer. `stopped` waits for its invocations. `restarted` is closed
	// when the consumer starts again.
	untilStopped context.Context
	stop         context.CancelFunc
	stopped      sync.WaitGroup
	restarted    chan struct{}

	queueURLs                              []string
	deadLetterURL, delayURL, executionsURL string

	mu       sync.Mutex
	redriven int // the number of redriven messages
	problems []string
}

// problem records a broken guarantee.
func (s *simulation) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// count adds to a count in the summary of all runs.
func (s *simulation) count(what string, n int) {
	s.director.mu.Lock()
	defer s.director.mu.Unlock()
	s.director.counts[what] += n
}

// TestSimulation makes runs with different machines, events and faults, and checks the promises of docs/guarantees.md
// in each. A seed repeats a run:
//
//	make simulate SEED=1402 RUNS=1
func TestSimulation(t *testing.T) {
	t.Parallel()
	const workers = 2
	runs := cmp.Or(*simulationRuns, depth(40, 2000))
	var mu sync.Mutex
	counts := map[string]int{}
	for worker := range workers {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for run := worker; run < runs && !t.Failed(); run += workers {
				s := simulate(t, *simulationSeed+uint64(run))
				if *simulationRuns == 1 {
					t.Log("the trace:\n" + strings.Join(s.director.trace, "\n"))
				}
				if len(s.problems) > 0 {
					t.Errorf("run %d, seed %d (again: make simulate SEED=%[2]d RUNS=1%s): %d problems:\n%s\n\nthe run's end:\n%s", run, s.seed, s.strainFlag(),
						len(s.problems), strings.Join(first(s.problems, 10), "\n"), strings.Join(s.trace(), "\n"))
				}
				mu.Lock()
				for kind, n := range s.director.counts {
					counts[kind] += n
				}
				counts["runs"]++
				mu.Unlock()
			}
		})
	}
	t.Cleanup(func() { t.Log(summary(counts)) })
}

// trace returns the end of the trace.
func (s *simulation) trace() []string {
	if *simulationRuns == 1 {
		return nil // a single run prints its whole trace anyway
	}
	return s.director.trace[max(0, len(s.director.trace)-20):]
}

// TestASeedRepeatsItsRun makes each run twice, and expects the same trace with the same times.
func TestASeedRepeatsItsRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*simulationRepeats) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			once, again := simulate(t, 1000+seed).director.trace, simulate(t, 1000+seed).director.trace
			if len(once) == 0 {
				t.Errorf("seed %d made no call", 1000+seed)
			}
			same := 0
			for same < min(len(once), len(again)) && once[same] == again[same] {
				same++
			}
			if same < max(len(once), len(again)) {
				t.Errorf("the runs of seed %d differ after\n%s\none goes on\n%s\nand the other\n%s", 1000+seed, strings.Join(once[max(0, same-5):same], "\n"),
					strings.Join(first(once[same:], 2), "\n"), strings.Join(first(again[same:], 2), "\n"))
			}
		})
	}
}

// simulate makes the run of a seed.
func simulate(t *testing.T, seed uint64) *simulation {
	t.Helper()
	s := &simulation{seed: seed, ledger: newLedger(), operations: map[string]*operated{}}
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		var err error
		if s.recorded, err = newRecorded(); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		s.plan = drawPlan(rng, seed).withFields(seed)
		cloud := func(config awslocal.Config) *awslocal.Cloud {
			config.TTLDelay = s.plan.ttlDelay
			return awslocal.New(config)
		}
		s.director = newDirector(cloud, seed, []float64{0, 0.01, 0.03, 0.1, 0.3}[rng.IntN(5)], 2+rng.IntN(20))
		s.director.onCall, s.director.plan = s.recordCall, s.plan
		s.lab = newLab(s)
		s.host()
		s.create()
		ctx, stop := context.WithCancel(context.Background())
		s.untilStopped, s.stop = context.WithCancel(ctx)
		s.restarted = make(chan struct{})
		s.stopped.Add(s.plan.queues)
		var running, producing sync.WaitGroup
		running.Go(func() { s.director.direct(ctx) })
		for i := range s.plan.queues {
			concurrency := 1 + rng.IntN(3)
			running.Go(func() {
				if s.plan.killsInARow {
					time.Sleep(10 * time.Second) // messages sent in the meantime are received together
				}
				s.consume(ctx, i, concurrency)
			})
		}
		running.Go(func() { s.poll(ctx, delayName, s.forwarder, 1) })
		running.Go(func() { s.poll(ctx, executionsName, s.executions, 1) })
		running.Go(func() { s.operate(ctx) })
		for i, producer := range s.plan.producers {
			producing.Go(func() { s.produce(fmt.Sprintf("producer-%d", i), producer) })
		}
		for i, one := range s.plan.executions {
			producing.Go(func() { s.waitFor(i, one) })
		}
		if s.plan.restores {
			producing.Go(s.restore)
		}
		if s.plan.operators {
			producing.Go(s.operators)
		}
		producing.Wait()
		if s.plan.redriven {
			time.Sleep(time.Hour)
			s.redrive(true)
		}
		s.director.stopFaults()
		time.Sleep(s.plan.rest)
		s.check()
		s.checkRecording()
		stop()
		running.Wait()
		s.director.flush()
	})
	return s
}

// host builds two sets of machines: one for processes from before the deployment, one for processes from after it.
func (s *simulation) host() {
	s.versions = map[string][]durable.Machine{}
	var before, after []durable.Machine
	for _, machine := range s.plan.machines {
		old := machine(s.lab, firstVersion)
		before = append(before, old)
		s.versions[old.ID()] = []durable.Machine{old}
		if changed := machine(s.lab, newVersion); s.plan.deploy > 0 {
			after = append(after, changed)
			s.versions[old.ID()] = append(s.versions[old.ID()], changed)
			if !s.plan.besides || changed.Version() != newVersion {
				continue
			}
		}
		after = append(after, old)
	}
	var err error
	if s.machines, err = durable.NewMachines(before...); err == nil {
		s.deployed, err = durable.NewMachines(after...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.deployAt = time.Now().Add(s.plan.deploy)
}

// deployments returns how many deployments happened more than `period` before the time `at`: 1 for the new versions, 2
// for the rollback, 3 for the new versions again.
func (s *simulation) deployments(period time.Duration, at time.Time) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.deployAt.Add(period)
	for k, after := range []time.Duration{s.plan.deploy, s.plan.rollBack, s.plan.outage} {
		if k > 0 {
			begun = begun.Add(after)
		}
		if after == 0 || !at.After(begun) {
			break
		}
		count++
	}
	return count
}

// deployAtWork deploys now, if plan.atWork is set and the deployment has not happened yet.
func (s *simulation) deployAtWork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.plan.atWork && now.Before(s.deployAt) {
		s.deployAt = now
	}
}

// hostedBy returns the machines of a process that starts now. During a deployment, processes of both versions start.
func (s *simulation) hostedBy(process string) *durable.Machines {
	rollout := time.Duration(digestOf(process)%60) * time.Second
	if s.deployments(rollout, time.Now())%2 == 1 {
		return s.deployed
	}
	return s.machines
}

// client returns the configuration of a process's SDK clients. If the plan is patient, they retry after fixed waits:
// the SDK's own waits are random and independent of the seed.
func (s *simulation) client(process string) aws.Config {
	return aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: wire{s.director, process},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		Retryer: func() aws.Retryer {
			if !s.plan.patient {
				return aws.NopRetryer{}
			}
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.RateLimiter = ratelimit.None
				o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
					return 50 * time.Millisecond << attempt, nil
				})
			})
		},
	}
}

// truth returns the configuration of clients without faults.
func (s *simulation) truth() aws.Config {
	config := s.client("")
	config.HTTPClient = s.director.cloud.HTTPClient()
	return config
}

func (s *simulation) create() {
	config := s.truth()
	queues, tables := sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
	create := func(name string) string {
		attributes := map[string]string{"VisibilityTimeout": visibilityTimeout}
		if name != delayName && name != executionsName {
			attributes["FifoQueue"] = "true"
		}
		if name == deadLetterName {
			attributes["MessageRetentionPeriod"] = fmt.Sprint(14 * 24 * 3600)
		}
		if s.plan.receivesMax > 0 && attributes["FifoQueue"] != "" && name != deadLetterName {
			attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn": "arn:aws:sqs:%s:%s:%s", "maxReceiveCount": %d}`, awslocal.Region, awslocal.Account, deadLetterName, s.plan.receivesMax)
		}
		made, err := queues.CreateQueue(s.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			s.t.Fatal(err)
		}
		return *made.QueueUrl
	}
	s.deadLetterURL, s.delayURL, s.executionsURL = create(deadLetterName), create(delayName), create(executionsName)
	s.createFlow()
	for i := range s.plan.queues {
		s.queueURLs = append(s.queueURLs, create(s.queue(i)))
	}
	if err := dynamostore.CreateTable(s.t.Context(), tables, table); err != nil {
		s.t.Fatal(err)
	}
	s.store = dynamostore.New(tables, table)
}

// queue returns the name of a FIFO queue.
func (s *simulation) queue(i int) string { return []string{queueName, "settle-too.fifo"}[i] }

// poll runs a function on a queue until ctx ends.
func (s *simulation) poll(ctx context.Context, queue string, start func(process string, now func() time.Time) lambda.Handler, concurrency int) {
	s.feed(ctx, &function{simulation: s, queue: queue, start: start}, concurrency)
}

func (s *simulation) feed(ctx context.Context, f *function, concurrency int) {
	err := s.director.cloud.Poll(ctx, awslocal.EventSource{Queue: f.queue, Timeout: functionTimeout, ReportBatchItemFailures: true, Concurrency: concurrency}, func() awslocal.Invoker {
		return f
	})
	if err != nil {
		s.problem("polling %s: %v", f.queue, err)
	}
}

// first returns the first n elements.
func first[E any](s []E, n int) []E { return s[:min(n, len(s))] }
