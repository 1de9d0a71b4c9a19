package simulate_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// aim has the faults of a run hit some calls only, each in one way. Faults that are spread over all calls seldom come where
// several must meet: some runs take aim at a moment that counts.
type aim struct {
	// kinds are what hits the calls, by their targets.
	kinds map[string]fault
	// outage is the least that an outage takes.
	outage time.Duration
	// about is a part of what the calls say; empty means anything.
	about string
	// afterParking says that only the calls are hit by which a process notes that it has parked a message.
	afterParking bool
	// family, parking, tasks and givesUp say what there is more of in such runs: children, events that are parked and sent
	// again, tasks that wait, and messages that the queue gives up.
	family, parking, tasks, givesUp bool
}

// deduplicationPeriod is for how long SQS remembers a deduplication ID.
const deduplicationPeriod = 5 * time.Minute

// aims are the moments that count.
var aims = []aim{
	// A process that has read an instance writes when nobody expects it any more.
	{kinds: map[string]fault{"dynamodb.PutItem": freeze}, about: `{"S":"` + kidMachine + "/", family: true},
	// A child is to start, and the queue gives that up until its parent does not wait any more.
	{kinds: map[string]fault{"dynamodb.GetItem": failBefore, "dynamodb.PutItem": failBefore}, about: `{"S":"` + kidMachine + "/", family: true, givesUp: true},
	// What a process has sent, it sends again when SQS has forgotten the first: parked, and still in the outbox; performed, and
	// not cleared.
	{kinds: map[string]fault{"dynamodb.PutItem": outage, "dynamodb.UpdateItem": outage}, outage: deduplicationPeriod, afterParking: true, parking: true},
	{kinds: map[string]fault{"dynamodb.UpdateItem": outage}, outage: deduplicationPeriod},
	// The task does not wait any more when its answer comes, and what the chart is told of that is sent again.
	{kinds: map[string]fault{"states.SendTaskSuccess": outage, "states.SendTaskFailure": outage, "dynamodb.UpdateItem": outage}, outage: deduplicationPeriod, tasks: true},
}

// drawAim takes aim in one run of three.
func drawAim(rng *rand.Rand) aim {
	if rng.IntN(3) > 0 {
		return aim{}
	}
	return aims[rng.IntN(len(aims))]
}

// aimedShare is how much more likely than usual an aimed fault hits its target.
const aimedShare = 3

// draw decides what becomes of a call.
func (d *director) draw(call *pendingCall) fault {
	if call.target == invocation {
		return 0
	}
	var kind fault
	switch {
	case d.plan.aim.kinds == nil && d.hits(1):
		kind = d.drawKind(call)
	case d.plan.aim.kinds[call.target] != 0 && bytes.Contains(call.body, []byte(d.plan.aim.about)) && (!d.plan.aim.afterParking || d.parks[call.process]) && d.hits(aimedShare):
		kind = d.plan.aim.kinds[call.target]
	default:
		return 0
	}
	d.count(kind, call)
	return kind
}

// drawKind draws a fault that a call can have.
func (d *director) drawKind(call *pendingCall) fault {
	kinds := []fault{failBefore, loseAnswer, throttle, duplicate, outage}
	if !call.isProducers() {
		kinds = append(kinds, freeze, dieBefore, dieAfter, dieAfter)
		if d.plan.hangs {
			kinds = append(kinds, hang, hangAfter)
		}
	}
	if d.plan.sieges {
		kinds = append(kinds, longOutage, partialOutage)
		if call.isConsumers() {
			kinds = append(kinds, killing)
		}
	}
	if d.plan.denies && call.isConsumers() && (permissionOf(call.target) == "sqs.SendMessage" || call.target == "scheduler.POST") {
		kinds = append(kinds, slices.Repeat([]fault{deny}, len(kinds))...)
	}
	return kinds[d.rng.IntN(len(kinds))]
}

// permissionOf returns the operation whose permission a call needs: IAM authorizes a batch as its entries (SQS Developer Guide,
// "Amazon SQS API permissions").
func permissionOf(target string) string { return strings.TrimSuffix(target, "Batch") }

// drawOutage draws for how long a service is out.
func (d *director) drawOutage() time.Duration {
	return d.plan.aim.outage + time.Duration(5+d.rng.IntN(300))*time.Second
}
