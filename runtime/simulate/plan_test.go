package simulate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
)

// plan is what happens in a simulation, faults aside.
type plan struct {
	machines  []func(*lab) durable.Machine
	instances []string
	producers [][]sending
	// skewed says that the clocks of processes are off.
	skewed bool
	// rest is the time that the runtime has to come to rest after the last event.
	rest time.Duration
}

// sending is an event that a producer sends.
type sending struct {
	after    time.Duration // the one before
	instance string
	body     string
	// repeats are how long after the event is in the queue it is sent again, under another
	// deduplication ID.
	repeats []time.Duration
}

// drawPlan draws machines, instances and their events.
func drawPlan(rng *rand.Rand) plan {
	p := plan{skewed: rng.IntN(2) == 0, rest: 8 * 400 * 24 * time.Hour}
	machines := 1 + rng.IntN(2)
	for range 1 + rng.IntN(4) {
		p.instances = append(p.instances, fmt.Sprintf("drawn%d/%d", rng.IntN(machines), len(p.instances)))
	}
	for i := range machines {
		p.machines = append(p.machines, drawMachine(fmt.Sprintf("drawn%d", i), rng.Uint64(), p.instances))
	}
	for i := range 1 + rng.IntN(2) {
		var sendings []sending
		for j := range 1 + rng.IntN(12) {
			sendings = append(sendings, drawSending(rng, p.instances, fmt.Sprintf("p%d-%d", i, j)))
		}
		p.producers = append(p.producers, sendings)
	}
	return p
}

func drawSending(rng *rand.Rand, instances []string, id string) sending {
	s := sending{instance: instances[rng.IntN(len(instances))]}
	switch rng.IntN(6) {
	case 0: // At once.
	case 1:
		s.after = time.Duration(rng.IntN(3600)) * time.Second
	case 2:
		s.after = time.Duration(rng.IntN(60*24)) * time.Hour
	default:
		s.after = time.Duration(rng.IntN(3000)) * time.Millisecond
	}
	event := map[string]any{"type": outsideEvents[rng.IntN(len(outsideEvents))], "serial": id, "$id": id}
	switch rng.IntN(25) {
	case 0:
		event["serial"] = failing
	case 1:
		event["serial"] = 7
	case 2:
		event["type"] = "undeclared"
	}
	if rng.IntN(5) == 0 {
		delete(event, "$id")
	} else if rng.IntN(4) == 0 {
		s.repeats = append(s.repeats, time.Duration(rng.IntN(900))*time.Second)
	}
	body, _ := json.Marshal(event)
	s.body = string(body)
	return s
}

// produce sends events as a careful producer does: again until the queue has answered.
func (s *simulation) produce(process string, sendings []sending) {
	client := sqs.NewFromConfig(s.client(process))
	send := func(one sending, deduplicationID string) {
		for {
			_, err := client.SendMessage(s.t.Context(), &sqs.SendMessageInput{
				QueueUrl: &s.queueURL, MessageBody: &one.body, MessageGroupId: &one.instance, MessageDeduplicationId: &deduplicationID,
			})
			if err == nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	for i, one := range sendings {
		time.Sleep(one.after)
		id := fmt.Sprintf("%s-%d", process, i)
		send(one, id)
		for j, after := range one.repeats {
			time.Sleep(after)
			send(one, fmt.Sprintf("%s-again-%d", id, j))
		}
	}
}
