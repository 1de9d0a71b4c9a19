package simulate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/settle-run/settle/runtime/awslocal"
)

// What strains do to the calls of a simulation.

// latencyMax is how long a call takes in a run with latencies, at most.
const latencyMax = 3 * time.Second

// latencyOf draws how long a call takes to reach AWS; d.mu is held.
func (d *director) latencyOf(call *pendingCall) time.Duration {
	if d.plan.longOutboxes && call.isConsumers() && call.target == "sqs.SendMessage" {
		return time.Duration(1+d.rng.Int64N(int64(latencyMax/time.Millisecond))) * time.Millisecond
	}
	if d.plan.latencies { // As many below 55 ms as above.
		return time.Duration(math.Pow(float64(latencyMax/time.Millisecond), d.rng.Float64())) * time.Millisecond
	}
	return time.Duration(1+d.rng.IntN(20)) * time.Millisecond
}

// lagOf draws how long ago the state is that a call reads.
func (d *director) lagOf(call awslocal.Call) time.Duration {
	if d.plan.lag == 0 || call.Client == "" || call.Service != "states" {
		return 0
	}
	if call.Operation == "DescribeExecution" || call.Operation == "GetExecutionHistory" {
		d.tally("reads of executions that lagged", true)
	}
	rng := rand.New(rand.NewPCG(digestOf(fmt.Sprint(d.seed, call.Client, call.Operation, time.Now().UnixNano())), 5))
	return time.Duration(rng.Int64N(int64(d.plan.lag)))
}
