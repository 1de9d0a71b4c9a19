package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// work is a machine whose chart can fail. An instance works for a while and is then ready.
type work struct {
	// toil is how long the work takes.
	toil time.Duration
	// broken makes the chart fail at the end of the work, and on the event COUNT.
	broken atomic.Bool
}

type workContext struct {
	Counted []string `json:"counted,omitempty"`
}

type count struct {
	What string `json:"what"`
}

// config is the command of the machine.
func (w *work) config() command.Config {
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(w.chart(), durable.MachineConfig{})}
	}}
}

func (w *work) chart() *statechart.Chart[workContext] {
	type (
		state = statechart.State[workContext]
		on    = statechart.Transition[workContext]
		do    = []statechart.Action[workContext]
	)
	toil := statechart.ServiceFunc("toil", func(ctx context.Context, _ workContext, _ statechart.Call) (struct{}, error) {
		timer := time.NewTimer(w.toil)
		defer timer.Stop()
		select {
		case <-timer.C:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
	})
	fail := statechart.Assign("failIfBroken", func(_ *workContext, _ statechart.Event) {
		if w.broken.Load() {
			panic("out of order")
		}
	})
	note := statechart.Assign("note", func(c *workContext, e count) {
		if w.broken.Load() {
			panic("out of order")
		}
		c.Counted = append(c.Counted, e.What)
	})
	settled := []string{statechart.Settled}
	return statechart.Must(statechart.Definition[workContext]{
		ID: "work", Version: 1, Initial: "idle",
		Payloads: statechart.Payloads{"START": statechart.NoPayload(), "COUNT": statechart.PayloadOf[count](), "FINISH": statechart.NoPayload()},
		States: []state{
			{ID: "idle", Tags: settled, On: []on{{Event: "START", Target: "busy"}, {Event: "COUNT", Actions: do{note}}}},
			{ID: "busy", Invoke: []statechart.Invoke[workContext]{{
				Service: toil, OnDone: []on{{Target: "ready", Actions: do{fail}}}, OnError: []on{{Target: "idle", Actions: do{fail}}},
			}}},
			{ID: "ready", Tags: []string{statechart.Settled, "rested"}, On: []on{
				{Event: "START", Target: "busy"}, {Event: "COUNT", Actions: do{note}}, {Event: "FINISH", Target: "over"},
			}},
			{ID: "over", Type: statechart.Final},
		},
	})
}

// withWork runs the test with a stack that hosts the machine.
func withWork(t *testing.T, w *work, test func(user)) {
	t.Helper()
	withMachines(t, w.config(), test)
}

// put puts a raw message into the queue, as another producer would.
func (u user) put(instance, deduplicationID, body string) {
	u.t.Helper()
	_, err := sqs.NewFromConfig(u.stack.AWS()).SendMessage(u.t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String(stack.Queue), MessageGroupId: &instance, MessageDeduplicationId: &deduplicationID, MessageBody: &body,
	})
	if err != nil {
		u.t.Fatal(err)
	}
}
