package awslocal

import (
	"encoding/json"
	"time"
)

// StatusChange is a change of an execution's status. Config.StatusChangeFault receives it before EventBridge delivers
// the event.
type StatusChange struct {
	// Number counts the changes of a Cloud, from 1.
	Number uint64
	// Execution is the ARN of the execution. Name is its name.
	Execution, Name string
	// Status is RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED.
	Status string
}

// StatusChangeFault describes what goes wrong with the delivery of one StatusChange. EventBridge delivers status
// changes on a best-effort basis. The zero value means that nothing goes wrong.
type StatusChangeFault struct {
	// Lost drops the event.
	Lost bool
	// Duplicated delivers the event twice.
	Duplicated bool
	// Late delays the event by whole seconds, up to 15 minutes, the longest delay of an SQS message.
	Late time.Duration
}

// deliver sends published events to the targets of the rules that match them, within the current change. It also passes
// each published event to Config.Published. If a queue does not exist or rejects a message, the event is lost, as for
// an EventBridge target without a dead-letter queue.
func (c *Cloud) deliver(now time.Time) {
	for _, delivery := range c.events.TakeDeliveries() {
		_, _ = c.sqs.Call(now, "", "SendMessage", delivery.Request) // EventBridge does not report failed deliveries.
	}
	for _, event := range c.events.TakePublished() {
		if c.published != nil {
			c.published(event)
		}
	}
}

// announce sends the status changes of executions to the queue of Config.StatusChanges, within the current change. If
// the queue does not exist, the events are lost.
func (c *Cloud) announce(now time.Time) {
	for _, change := range c.states.TakeStatusChanges() {
		c.announced++
		var fault StatusChangeFault
		if c.statusFault != nil {
			fault = c.statusFault(StatusChange{Number: c.announced, Execution: change.Execution, Name: change.Name, Status: change.Status})
		}
		times := 1
		switch {
		case fault.Lost:
			times = 0
		case fault.Duplicated:
			times = 2
		}
		request, err := json.Marshal(map[string]any{
			"QueueUrl": c.statusChanges, "MessageBody": string(change.Event), "DelaySeconds": int(fault.Late / time.Second),
		})
		if err != nil {
			panic("awslocal: cannot encode an event as JSON: " + err.Error())
		}
		for range times {
			_, _ = c.sqs.Call(now, "", "SendMessage", request) // EventBridge does not report failed deliveries.
		}
	}
}
