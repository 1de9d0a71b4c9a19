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

// plan describes a run: its machines, instances and events, and the calls that its faults aim at.
type plan struct {
	machines []func(l *lab, version int) durable.Machine
	// deploy is when new versions of the machines are deployed; 0 means never. If `besides` is set, the old versions
	// stay hosted; otherwise instances are migrated.
	deploy  time.Duration
	besides bool
	// rollBack is the time from the deployment until the first versions are deployed again; 0 means never. The old
	// build may be unable to read instances that the new build has stored. `outage` is the time from this rollback
	// until the new versions are deployed again.
	rollBack, outage time.Duration
	// atWork deploys the new versions earlier, if an instance cannot settle because a service killed its process twice.
	atWork    bool
	instances []string
	producers [][]sending
	// queues is the number of FIFO queues for the events.
	queues     int
	executions []waiting
	// hopeless makes the first event of each instance fail, because the event makes the snapshot too large. Without SDK
	// retries, parking often fails. In such runs, the event makes the chart fail instead.
	hopeless bool
	// denies means that permissions are missing for a while.
	denies bool
	// redriven means that an operator sends parked messages again. `attributed` means that the resent messages keep
	// their message attributes.
	redriven, attributed bool
	// receivesMax is the number of receives after which a queue gives up on a message: it moves the message to the
	// dead-letter queue. 0 means never. An operator sends the message again.
	receivesMax int
	// skewed means that the clocks of processes are off.
	skewed bool
	// patient means that the SDK retries failed calls, as it does by default.
	patient bool
	// acknowledgesLate means that the consumer acknowledges all messages at the end of their batch.
	acknowledgesLate bool
	aim              aim
	// strains lists the kinds of the run's strains: see strain. The fields below hold their settings.
	strains []string
	// lag is how old the state of an execution may be when it is read.
	lag time.Duration
	// latencies means that calls take up to latencyMax.
	latencies bool
	// `hangs` means that calls may never get a response. attemptTimeout is how long a client waits for a response; 0
	// means until its context ends.
	hangs          bool
	attemptTimeout time.Duration
	// sieges means that faults may last for hours.
	sieges bool
	// killsInARow means that services kill their processes many times in a row, while batches have events of many
	// instances.
	killsInARow bool
	// longOutboxes means that charts send many events at once, and that each send takes up to latencyMax.
	longOutboxes bool
	// restores means that an operator restores instances from a backup.
	restores bool
	// operators means that operators stop, terminate, move, keep, unkeep and forget instances.
	operators bool
	// fields adds a machine with two builds of one version: see drawFields. `sent` maps the serials of its events to the
	// events.
	fields bool
	sent   map[string]string
	// retention is the retention of drawn machines; 0 means forever. ttlDelay is how long DynamoDB keeps an item after
	// its expire_at: see awslocal.Config.
	retention, ttlDelay time.Duration
	// config is the loops' configuration.
	config durable.Config
	// horizon multiplies the waits for a deployment, for duplicates of an event, and for tasks.
	horizon int
	// rest is the wait after the last event. At its end, the runtime must be at rest.
	rest time.Duration
}

// sending is an event that a producer sends.
type sending struct {
	after    time.Duration // the time after the previous event
	instance string
	queue    int
	body     string
	// repeats are the delays after which the queued event is sent again, under another deduplication ID.
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
	if p.aim.parking { // the new version may accept an event that was parked because the first version fails on it
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
	if own := rand.New(rand.NewPCG(seed, digestOf("rollback"))); p.deploy > 0 && p.receivesMax == 0 && own.IntN(3) == 0 {
		p.rollBack, p.outage = time.Duration(1+own.IntN(900))*time.Second, time.Duration(1+own.IntN(1800))*time.Second
	}
	if p.fields = p.fields && !p.restores; p.fields { // a restore takes stored fields away
		p.receivesMax = 0
	}
	if p.longOutboxes { // the history does not show which of dozens of equal sends the queue has given up on
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
		p.denies = false // the model does not know which of the failed effects were undone
	}
	if p.retention > 0 || p.restores { // a deleted item does not show its children and executions
		family, flows = false, false
	}
	if p.operators = p.operators && p.retention == 0 && !p.restores; p.operators {
		p.ttlDelay = 30 * 400 * 24 * time.Hour // DynamoDB deletes items only after the run: an instance has only one life in the model.
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
		return p // the history does not show when a task started to wait, and its answer depends on that
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

// drawSending draws an event. If the queues give up on messages, every event has an ID.
func (p *plan) drawSending(rng *rand.Rand, id string) sending {
	s := sending{instance: p.instances[rng.IntN(len(p.instances))]}
	switch rng.IntN(6) {
	case 0: // immediately
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

// produce sends events as a careful producer does: it retries each event until the queue accepts it.
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
	// Start at a unique instant, because a seed cannot decide the order within one instant.
	time.Sleep(one.after + time.Duration(1+number)*time.Microsecond)
	client := sfn.NewFromConfig(s.truth())
	heartbeat, heartbeatKey := "", ""
	if one.heartbeat > 0 {
		heartbeat, heartbeatKey = fmt.Sprintf(`"HeartbeatSeconds": %d,`, one.heartbeat/time.Second), fmt.Sprintf(`, "heartbeatSeconds": %d`, one.heartbeat/time.Second)
	}
	definition := fmt.Sprintf(`{"StartAt": "wait", "States": {"wait": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "TimeoutSeconds": %d, %s "End": true,
		"Parameters": {"QueueUrl": %q, "MessageGroupId": %q, "MessageDeduplicationId.$": "States.Hash($$.Task.Token, 'SHA-256')", "MessageBody": {"type": "settle.wait",
		"$task": {"token.$": "$$.Task.Token", "name": %q, "execution.$": "$$.Execution.Id", "enteredAt.$": "$$.State.EnteredTime", "timeoutSeconds": %d %s}}}}}}`,
		one.timeout/time.Second, heartbeat, s.queueURLs[0], one.instance, one.name, one.timeout/time.Second, heartbeatKey)
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

// redrivenPrefix is the prefix of an operator's deduplication IDs.
const redrivenPrefix = "redriven-"

// redrive empties the dead-letter queue as an operator does. It resends each message that an event queue gave up on. If
// parkedToo is set, it also resends parked messages; otherwise, it deletes them.
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
		// The message attributes do not show whether this message was parked. An operator may have resent a parked
		// message with its attributes, and the event queue may then have given up on the copy.
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
		time.Sleep(time.Millisecond) // a seed cannot decide which messages of one instant share a batch
	}
}

// operatorsRound is how often an operator checks the dead-letter queue, which keeps messages for 14 days.
const operatorsRound = 10 * 24 * time.Hour

// operate resends the messages that a queue gave up on, until ctx ends.
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
