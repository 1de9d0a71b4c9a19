package conformance_test

import (
	"flag"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

var (
	sqsEndpoint       = flag.String("sqs-endpoint", "", "run TestSQS against this URL, in real time, instead of awslocal")
	dynamodbEndpoint  = flag.String("dynamodb-endpoint", "", "run TestDynamoDB against this URL, in real time, instead of awslocal")
	schedulerEndpoint = flag.String("scheduler-endpoint", "", "run TestScheduler against this URL, where SQS must be too, in real time, instead of awslocal")
	statesEndpoint    = flag.String("stepfunctions-endpoint", "", "run TestStepFunctions against this URL, where SQS must be too, in real time, instead of awslocal")
	patience          = flag.Duration("patience", time.Minute, "in real time, skip behaviours that take longer than this")
)

// behaviour is an AWS behaviour that clients rely on.
type behaviour struct {
	name    string
	promise string // for docs/awslocal-behaviours.md
	// test fails if the emulator of w behaves differently. In virtual time it runs in a testing/synctest bubble.
	test func(t *testing.T, w *world)
	// connection is set if the behaviour may differ over a connection. The test then also runs over HTTP.
	connection bool
	// `takes` is the duration of the test in real time. It is set only if the test takes more than some seconds.
	takes time.Duration
	// processes is set if the test runs other processes, which do not use virtual time.
	processes bool
}

// service is an AWS service and its behaviours.
type service struct {
	name       string
	behaviours []behaviour
}

var services = []service{
	{"SQS", sqsBehaviours},
	{"DynamoDB", dynamodbBehaviours},
	{"Scheduler", schedulerBehaviours},
	{"StepFunctions", statesBehaviours},
	{"EventBridge", eventBridgeBehaviours},
	{"Lambda", lambdaBehaviours},
}

func TestSQS(t *testing.T) {
	t.Parallel()
	run(t, sqsBehaviours, *sqsEndpoint)
}

func TestDynamoDB(t *testing.T) {
	t.Parallel()
	run(t, dynamodbBehaviours, *dynamodbEndpoint)
}

func TestScheduler(t *testing.T) {
	t.Parallel()
	run(t, schedulerBehaviours, *schedulerEndpoint)
}

func TestStepFunctions(t *testing.T) {
	t.Parallel()
	run(t, statesBehaviours, *statesEndpoint)
}

func TestEventBridge(t *testing.T) {
	t.Parallel()
	run(t, eventBridgeBehaviours, "")
}

func TestLambda(t *testing.T) {
	t.Parallel()
	run(t, lambdaBehaviours, "")
}

// run runs a subtest for each behaviour: in virtual time against a new Cloud, or in real time against the emulator at
// endpoint. A test that runs other processes always runs in real time against a new Cloud.
func run(t *testing.T, behaviours []behaviour, endpoint string) {
	t.Helper()
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			switch {
			case b.processes:
				b.test(t, inProcess())
			case endpoint == "":
				synctest.Test(t, func(t *testing.T) { b.test(t, inProcess()) })
			case b.takes > *patience:
				t.Skipf("takes %v, more than -patience", b.takes)
			default:
				b.runAt(t, endpoint)
			}
		})
	}
}

// runAt runs the behaviour in real time. If an emulator's answer makes the test panic, the other tests continue.
func (b behaviour) runAt(t *testing.T, endpoint string) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	b.test(t, at(t, endpoint))
}

// TestOverAConnection uses HTTP to run each behaviour whose field `connection` is set. The connections are in process
// and use virtual time.
func TestOverAConnection(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		for _, b := range s.behaviours {
			if !b.connection {
				continue
			}
			t.Run(s.name+"/"+b.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { b.test(t, connected(t)) })
			})
		}
	}
}
