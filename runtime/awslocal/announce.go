package awslocal

import (
	"encoding/json"
	"time"
)

// StatusChange is the change of an execution's status that EventBridge is about to deliver, as
// Config.StatusChangeFault sees it.
type StatusChange struct {
	// Number counts the changes of a Cloud, from 1.
	Number uint64
	// Execution is the ARN of the execution, Name its name.
	Execution, Name string
	// Status is RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED.
	Status string
}

// StatusChangeFault is what goes wrong with a delivery, which is EventBridge's best effort. The zero value
// is nothing.
type StatusChangeFault struct {
	// Lost keeps the event from ever arriving.
	Lost bool
	// Duplicated has it arrive twice.
	Duplicated bool
	// Late is how much later it arrives, in whole seconds: at most 15 minutes, the longest that a queue delays.
	Late time.Duration
}

// announce delivers what became of executions to the queue of Config.StatusChanges, as a part of the same
// change. If there is no such queue, it is lost.
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
			panic("awslocal: an event that is not JSON: " + err.Error())
		}
		for range times {
			_, _ = c.sqs.Call(now, "", "SendMessage", request) // EventBridge tells nobody either.
		}
	}
}
