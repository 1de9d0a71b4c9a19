package simulate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
)

// plan is what happens in a simulation, and what its faults take aim at.
type plan struct {
	machines []func(l *lab, version int) durable.Machine
	// deploy is when new versions of the machines are deployed, 0 for never. Beside them the old ones stay hosted, if
	// besides says so; else instances are migrated.
	deploy  time.Duration
	besides bool
	// atWork says that they are deployed as soon as an instance cannot settle: a service has killed its process twice.
	atWork    bool
	instances []string
	producers [][]sending
	// queues is how many FIFO queues the events come through.
	queues     int
	executions []waiting
	// hopeless says that the first event of each instance makes its snapshot too large or, where calls are not repeated and so its
	// parking often fails, that the chart fails on it.
	hopeless bool
	// denies says that permissions are missing for a while.
	denies bool
	// redriven says that what was parked is sent again, and attributed that its message attributes are, too.
	redriven, attributed bool
	// receivesMax is after how many receives the queues give a message up, 0 for never. An operator sends it again.
	receivesMax int
	// skewed says that the clocks of processes are off.
	skewed bool
	// patient says that the SDK repeats calls that fail, as it does unless it is told otherwise.
	patient bool
	// acknowledgesLate says that nothing is acknowledged before its batch.
	acknowledgesLate bool
	aim              aim
	// strains are the kinds of those that the run has. The fields below are theirs.
	strains []string
	// lag is how long ago the state of an execution may be that is read.
	lag time.Duration
	// latencies says that calls take up to latencyMax.
	latencies bool
	// hangs says that calls may never be answered, and attemptTimeout for how long a client waits for each; 0 is as long as its context.
	hangs          bool
	attemptTimeout time.Duration
	// sieges says that faults may last for hours.
	sieges bool
	// killsInARow says that services kill their processes many times in a row, while batches have events of many instances.
	killsInARow bool
	// longOutboxes says that charts send many events at once, and that each send takes up to latencyMax.
	longOutboxes bool
	// restores says that an operator restores instances from a backup.
	restores bool
	// retention is that of drawn machines, 0 for ever, and ttlDelay how long an item outlives its deadline.
	retention, ttlDelay time.Duration
	// config is that of the loops.
	config durable.Config
	// horizon is how many times as long a run waits for a deployment, for the repeats of an event and for its tasks.
	horizon int
	// rest is the time that the runtime has to come to rest after the last event.
	rest time.Duration
}

// sending is an event that a producer sends.
type sending struct {
	after    time.Duration // the one before
	instance string
	queue    int
	body     string
	// repeats are how long after the event is in the queue it is sent again, under another
	// deduplication ID.
	repeats []time.Duration
}

// waiting is a workflow that waits for an instance.
type waiting struct {
	after, timeout, heartbeat time.Duration
	instance, name            string
}

// drawPlan draws machines, instances and their events.
func drawPlan(rng *rand.Rand, seed uint64) plan {
	p := plan{skewed: rng.IntN(2) == 0, patient: rng.IntN(3) > 0, rest: 20 * 400 * 24 * time.Hour, queues: 1, horizon: 1, redriven: rng.IntN(4) == 0}
	p.attributed, p.acknowledgesLate, p.aim = rng.IntN(2) == 0, rng.IntN(3) == 0, drawAim(rng)
	p.drawStrains(seed)
	if p.aim.parking { // What the first version fails on, the second may take.
		p.redriven, p.attributed = true, true
	}
	if rng.IntN(2) == 0 || p.aim.parking {
		p.deploy, p.besides, p.atWork = time.Duration(p.horizon*rng.IntN(1800_000))*time.Millisecond, rng.IntN(3) == 0, rng.IntN(3) > 0
		if p.aim.parking {
			p.deploy, p.besides, p.atWork = time.Duration(rng.IntN(100*24))*time.Hour, false, false
		}
	}
	switch rng.IntN(8) {
	case 0, 1:
		p.queues = 2
	case 2:
		p.receivesMax = 4 + rng.IntN(6)
	case 3, 4:
		p.denies = true
	}
	p.hopeless = rng.IntN(4) == 0
	if p.aim.givesUp {
		p.queues, p.receivesMax, p.denies = 1, 4, false
	}
	if p.longOutboxes { // The history does not tell which of dozens of equal sends the queue gave up before they were applied.
		p.receivesMax = 0
	}
	machines, count := 1+rng.IntN(2), 1+rng.IntN(4)
	if p.killsInARow {
		machines, count = 2, count+6
	}
	for range count {
		p.instances = append(p.instances, fmt.Sprintf("drawn%d/%d", rng.IntN(machines), len(p.instances)))
	}
	family, flows := rng.IntN(3) == 0 || p.aim.family, rng.IntN(4) == 0
	if p.restores = p.restores && p.retention == 0; p.restores {
		p.denies = false // The model does not know which of the effects that failed were undone.
	}
	if p.retention > 0 || p.restores { // What an item that is gone had to do with them, nobody can tell.
		family, flows = false, false
	}
	var names []string
	names = append(names, waitNames...)
	if rng.IntN(3) == 0 {
		for _, machine := range realMachines {
			if rng.IntN(2) == 0 {
				p.machines = append(p.machines, machine.observed)
				names = append(names, machine.waits...)
				p.instances = append(p.instances, anyOf(rng, machine.names...), anyOf(rng, machine.names...))
			}
		}
		slices.Sort(p.instances)
		p.instances = slices.Compact(p.instances)
	}
	for i := range machines {
		p.machines = append(p.machines, drawMachine(fmt.Sprintf("drawn%d", i), rng.Uint64(), p.instances, family, flows))
	}
	if family {
		p.machines = append(p.machines, drawMachine(kidMachine, rng.Uint64(), p.instances, true, flows))
	}
	for i := range 1 + rng.IntN(2) {
		var sendings []sending
		for j := range 1 + rng.IntN(12) {
			one := p.drawSending(rng, fmt.Sprintf("p%d-%d", i, j))
			one.queue = rng.IntN(p.queues)
			sendings = append(sendings, one)
		}
		p.producers = append(p.producers, sendings)
	}
	if p.queues > 1 || p.retention > 0 || p.restores {
		return p // When a task came to wait, and so what it is told, the history does not say.
	}
	waits := rng.IntN(4)
	if p.aim.tasks {
		waits += 4
	}
	for range waits {
		one := waiting{
			after: time.Duration(p.horizon*rng.IntN(1800)) * time.Second, instance: p.instances[rng.IntN(len(p.instances))], name: names[rng.IntN(len(names))],
			timeout: []time.Duration{20 * time.Second, 10 * time.Minute, 30 * 24 * time.Hour}[rng.IntN(3)],
		}
		if (one.timeout <= 10*time.Minute || p.sieges) && rng.IntN(2) == 0 {
			one.heartbeat = one.timeout / 4
		}
		p.executions = append(p.executions, one)
	}
	return p
}

// drawSending draws an event. If the queues give messages up, it has an ID.
func (p *plan) drawSending(rng *rand.Rand, id string) sending {
	s := sending{instance: p.instances[rng.IntN(len(p.instances))]}
	switch rng.IntN(6) {
	case 0: // At once.
	case 1:
		s.after = time.Duration(rng.IntN(3600)) * time.Second
	case 2:
		s.after = time.Duration(rng.IntN(60*24)) * time.Hour
	default:
		s.after = time.Duration(rng.IntN(3000)) * time.Millisecond
	}
	if p.killsInARow && rng.IntN(4) > 0 {
		s.after = 0
	}
	event := map[string]any{"type": outsideEvents[rng.IntN(len(outsideEvents))], "serial": id}
	if machine := realMachineOf(s.instance); machine != nil {
		event = machine.event(rng)
	}
	event["$id"] = id
	withoutID := 5
	if p.aim.parking {
		withoutID = 2
		if rng.IntN(3) == 0 {
			event["serial"] = failing
		}
	}
	switch rng.IntN(30) {
	case 0:
		event["serial"] = failing
	case 3:
		event["serial"] = huge
	case 1:
		event["serial"] = 7
	case 2:
		event["type"] = "undeclared"
	}
	isKnown := func(other sending) bool { return other.instance == s.instance }
	if p.hopeless && !slices.ContainsFunc(slices.Concat(p.producers...), isKnown) {
		event["serial"] = huge
		if !p.patient {
			event["serial"] = failing
		}
	}
	if rng.IntN(withoutID) == 0 && p.receivesMax == 0 {
		delete(event, "$id")
	} else if rng.IntN(4) == 0 {
		s.repeats = append(s.repeats, time.Duration(p.horizon*rng.IntN(900))*time.Second)
	}
	body, _ := json.Marshal(event)
	s.body = string(body)
	return s
}

// produce sends events as a careful producer does: again until the queue has answered.
func (s *simulation) produce(process string, sendings []sending) {
	client := sqs.NewFromConfig(s.client(process))
	waitMax := time.Second
	if s.plan.sieges {
		waitMax = time.Minute
	}
	send := func(one sending, deduplicationID string) {
		for wait := time.Second; ; wait = min(2*wait, waitMax) {
			_, err := client.SendMessage(s.t.Context(), &sqs.SendMessageInput{
				QueueUrl: &s.queueURLs[one.queue], MessageBody: &one.body, MessageGroupId: &one.instance, MessageDeduplicationId: &deduplicationID,
			})
			if err == nil {
				return
			}
			time.Sleep(wait)
		}
	}
	for i, one := range sendings {
		time.Sleep(one.after)
		id := fmt.Sprintf("%s-%d", process, i)
		send(one, id)
		s.countSending(one.body)
		for j, after := range one.repeats {
			time.Sleep(after)
			s.count(map[bool]string{true: countRepeatedSoon, false: countRepeatedLate}[after < 5*time.Minute], 1)
			send(one, fmt.Sprintf("%s-again-%d", id, j))
		}
	}
}

// waitFor starts an execution that waits for an instance.
func (s *simulation) waitFor(number int, one waiting) {
	// At an instant of its own: in which order things of one instant happen, no seed decides.
	time.Sleep(one.after + time.Duration(1+number)*time.Microsecond)
	client := sfn.NewFromConfig(s.truth())
	heartbeat, told := "", ""
	if one.heartbeat > 0 {
		heartbeat, told = fmt.Sprintf(`"HeartbeatSeconds": %d,`, one.heartbeat/time.Second), fmt.Sprintf(`, "heartbeatSeconds": %d`, one.heartbeat/time.Second)
	}
	definition := fmt.Sprintf(`{"StartAt": "wait", "States": {"wait": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "TimeoutSeconds": %d, %s "End": true,
		"Parameters": {"QueueUrl": %q, "MessageGroupId": %q, "MessageDeduplicationId.$": "States.Hash($$.Task.Token, 'SHA-256')", "MessageBody": {"type": "settle.wait",
		"$task": {"token.$": "$$.Task.Token", "name": %q, "execution.$": "$$.Execution.Id", "enteredAt.$": "$$.State.EnteredTime", "timeoutSeconds": %d %s}}}}}}`,
		one.timeout/time.Second, heartbeat, s.queueURLs[0], one.instance, one.name, one.timeout/time.Second, told)
	name := waitName(number)
	machine, err := client.CreateStateMachine(s.t.Context(), &sfn.CreateStateMachineInput{Name: &name, Definition: &definition, RoleArn: aws.String(anyRole)})
	if err != nil {
		s.problem("%v", err)
		return
	}
	if _, err = client.StartExecution(s.t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Name: &name}); err != nil {
		s.problem("%v", err)
	}
}

// redrivenPrefix begins the deduplication IDs of what an operator sends.
const redrivenPrefix = "redriven-"

// redrive empties the dead-letter queue, as an operator does: it sends what the queue has given up into its queue
// again and, if that is what they want, what was parked.
func (s *simulation) redrive(parkedToo bool) {
	client := sqs.NewFromConfig(s.truth())
	for {
		got, err := client.ReceiveMessage(s.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &s.deadLetterURL, MaxNumberOfMessages: 1, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			s.problem("%v", err)
			return
		}
		if len(got.Messages) == 0 {
			return
		}
		message := got.Messages[0]
		// The queue may have given up a copy of what was parked, which keeps the attributes.
		wasParked := strings.HasPrefix(message.Attributes["MessageDeduplicationId"], "parked-")
		if !wasParked {
			s.ledger.abandon(*message.MessageId)
		}
		if !wasParked || parkedToo {
			s.redriven++
			again := &sqs.SendMessageInput{
				QueueUrl: &s.queueURLs[0], MessageBody: message.Body, MessageGroupId: aws.String(message.Attributes["MessageGroupId"]),
				MessageDeduplicationId: aws.String(fmt.Sprintf("%s%d", redrivenPrefix, s.redriven)),
			}
			if s.plan.attributed {
				again.MessageAttributes = message.MessageAttributes
			}
			_, err = client.SendMessage(s.t.Context(), again)
		}
		if err == nil {
			_, err = client.DeleteMessage(s.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &s.deadLetterURL, ReceiptHandle: message.ReceiptHandle})
		}
		if err != nil {
			s.problem("%v", err)
			return
		}
		time.Sleep(time.Millisecond) // Which of several messages of one instant come in one batch, no seed decides.
	}
}

// operatorsRound is how often an operator looks into the dead-letter queue. It keeps messages for 14 days.
const operatorsRound = 10 * 24 * time.Hour

// operate sends again what a queue has given up, until ctx ends.
func (s *simulation) operate(ctx context.Context) {
	round := time.NewTicker(operatorsRound)
	defer round.Stop()
	for s.plan.receivesMax > 0 {
		select {
		case <-round.C:
			s.redrive(false)
		case <-ctx.Done():
			return
		}
	}
}

func waitName(number int) string { return fmt.Sprintf("wait-%d", number) }
