package simulate_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// This file applies strains to calls. A strain is a condition that lasts for a whole run: see strain.

// latencyMax is the longest latency of a call in a run with latencies.
const latencyMax = 3 * time.Second

// killerMachine is the machine whose services kill their processes many times in a row. killers is the text that a call
// contains if it names an item of this machine.
const (
	killerMachine = "drawn0"
	killers       = `{"S":"` + killerMachine + "/"
)

// latencyOf draws a call's latency. The caller holds d.mu.
func (d *director) latencyOf(call *pendingCall) time.Duration {
	if d.plan.longOutboxes && call.isConsumers() && strings.HasPrefix(call.target, "sqs.SendMessage") {
		return time.Duration(1+d.rng.Int64N(int64(latencyMax/time.Millisecond))) * time.Millisecond
	}
	if d.plan.killsInARow && call.isConsumers() { // Calls about killers are faster, so that a kill interrupts other instances between their calls.
		if bytes.Contains(call.body, []byte(killers)) {
			return time.Duration(1+d.rng.IntN(3)) * time.Millisecond
		}
		return time.Duration(8+d.rng.IntN(6)) * time.Millisecond
	}
	if d.plan.latencies { // the median is 55 ms
		return time.Duration(math.Pow(float64(latencyMax/time.Millisecond), d.rng.Float64())) * time.Millisecond
	}
	return time.Duration(1+d.rng.IntN(20)) * time.Millisecond
}

// lagOf draws the staleness of a call's read, or returns 0 if the call reads the current state.
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

// siege draws the length of a fault that lasts between 20 minutes and six hours.
func (d *director) siege() time.Duration {
	return 20*time.Minute + time.Duration(d.rng.IntN(340*60))*time.Second
}

// last records how long a fault that affects many calls lasts. The caller holds d.mu.
func (d *director) last(now time.Time, call *pendingCall, kind fault) {
	switch kind {
	case outage:
		d.outages[call.service()] = now.Add(d.drawOutage())
	case longOutage:
		d.outages[call.service()] = now.Add(d.siege())
	case partialOutage:
		d.partial[call.service()] = now.Add(d.siege())
	case killing:
		d.killing = now.Add(d.siege())
	case deny:
		d.denied[permissionOf(call.target)] = now.Add(70*time.Minute + time.Duration(d.rng.IntN(10800))*time.Second)
	}
}

// lasting returns the fault that hits a call while a lasting fault, such as an outage, is in effect. It returns 0 if
// none hits. The caller holds d.mu.
func (d *director) lasting(now time.Time, call *pendingCall) fault {
	switch {
	case d.outages[call.service()].After(now):
		d.note(now, call, "outage")
		return []fault{failBefore, throttle}[d.rng.IntN(2)]
	case d.denied[permissionOf(call.target)].After(now) && call.isConsumers():
		d.note(now, call, "denied")
		return deny
	case d.partial[call.service()].After(now) && call.isWrite() && d.rng.IntN(2) == 0:
		d.note(now, call, "partial outage")
		return []fault{failBefore, throttle, loseAnswer}[d.rng.IntN(3)]
	case d.killing.After(now) && call.isConsumers() && d.rng.IntN(8) == 0:
		kind := []fault{dieBefore, dieAfter}[d.rng.IntN(2)]
		d.note(now, call, "killing: "+nameOf(kind))
		d.counts[nameOf(kind)]++
		d.kill(call.process)
		return kind
	}
	return 0
}

func (c *pendingCall) service() string {
	service, _, _ := strings.Cut(c.target, ".")
	return service
}

// isWrite reports whether a call changes something.
func (c *pendingCall) isWrite() bool {
	return !strings.Contains(c.target, ".Get") && !strings.Contains(c.target, ".Describe")
}
