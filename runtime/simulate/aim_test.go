package simulate_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// aim restricts the faults of a run to a few kinds of calls, with one kind of fault each. Faults that are spread over
// all calls seldom hit several related calls. So some runs aim at a critical moment.
type aim struct {
	// kinds maps targets to the faults that hit their calls.
	kinds map[string]fault
	// outage is the minimum length of an outage.
	outage time.Duration
	// `about` restricts the faults to calls that contain this text; empty means any call.
	about string
	// afterParking restricts the faults to the calls that a process makes right after it has parked a message.
	afterParking bool
	// Runs with this aim have more children (family), events that are parked and sent again (parking), waiting tasks
	// (tasks), or messages that the queue gives up on (givesUp).
	family, parking, tasks, givesUp bool
}

// deduplicationPeriod is how long SQS remembers a deduplication ID.
const deduplicationPeriod = 5 * time.Minute

// aims lists the critical moments.
var aims = []aim{
	// A process that has read an instance writes much later.
	{kinds: map[string]fault{"dynamodb.PutItem": freeze}, about: `{"S":"` + kidMachine + "/", family: true},
	// The queue gives up on the message that should start a child. When an operator sends the message again, the parent
	// no longer waits for the child.
	{kinds: map[string]fault{"dynamodb.GetItem": failBefore, "dynamodb.PutItem": failBefore}, about: `{"S":"` + kidMachine + "/", family: true, givesUp: true},
	// In the next two aims, a process sends a message again after SQS has forgotten its deduplication ID. In the first,
	// the message was parked but is still in the outbox. In the second, an effect was performed but not cleared.
	{kinds: map[string]fault{"dynamodb.PutItem": outage, "dynamodb.UpdateItem": outage}, outage: deduplicationPeriod, afterParking: true, parking: true},
	{kinds: map[string]fault{"dynamodb.UpdateItem": outage}, outage: deduplicationPeriod},
	// The task no longer waits when its answer arrives. A process repeats the event that reports this to the chart.
	{kinds: map[string]fault{"states.SendTaskSuccess": outage, "states.SendTaskFailure": outage, "dynamodb.UpdateItem": outage}, outage: deduplicationPeriod, tasks: true},
}

// drawAim returns an aim in one run of three.
func drawAim(rng *rand.Rand) aim {
	if rng.IntN(3) > 0 {
		return aim{}
	}
	return aims[rng.IntN(len(aims))]
}

// aimedShare multiplies the probability that an aimed fault hits its target.
const aimedShare = 3

// draw returns the fault that hits a call.
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

// drawKind draws one of the faults that a call can have.
func (d *director) drawKind(call *pendingCall) fault {
	kinds := []fault{failBefore, loseAnswer, throttle, duplicate, outage}
	if call.isOperators() {
		kinds = append(kinds, freeze)
	} else if !call.isProducers() {
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

// permissionOf returns the operation whose permission a call needs. IAM authorizes a batch call like a call for one
// entry (SQS Developer Guide, "Amazon SQS API permissions").
func permissionOf(target string) string { return strings.TrimSuffix(target, "Batch") }

// drawOutage draws the length of an outage.
func (d *director) drawOutage() time.Duration {
	return d.plan.aim.outage + time.Duration(5+d.rng.IntN(300))*time.Second
}
