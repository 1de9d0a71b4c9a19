package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

type resumeCommand struct {
	tableFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" help:"The instance, such as signup/42."`
	waitFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (*resumeCommand) Help() string {
	return `An instance is unsettled while its services run. It stays unsettled if the chart fails on the result of a service, or if SQS
moves its event to the dead-letter queue after too many receives. An instance can also be left with effects that were
committed but not performed, or with workflow tasks that were not answered. In all these cases nothing happens until its
next event.

resume sends such an event: the firing of a timer that the instance does not have. The consumer first settles the instance
and performs its effects, and then skips the firing. If the instance is settled and nothing is left to do, resume sends
nothing.

While the queue retries an earlier event of the instance, this event waits behind it. If the instance cannot settle in
three tries, this event is parked with the reason. Drop it from the dead-letter queue. Redriving it does the same as
settle resume.

  settle resume signup/42
  settle resume signup/42 --wait settled --timeout 2m`
}

// resumed is the JSON output of resume.
type resumed struct {
	Instance string `json:"instance"`
	// Needed is true if something was left to do. MessageID is set only then.
	Needed    bool     `json:"needed"`
	MessageID string   `json:"message_id,omitempty"`
	State     []string `json:"state"`
	Settled   bool     `json:"settled"`
}

// resumeTimer is not the ID of any timer, because the IDs of timers begin with a number.
const resumeTimer = "resume"

// nudge returns the firing of a timer that the instance does not have. The loop settles the instance, performs its
// effects, and then skips the firing.
func nudge(to instances.ID) (durable.Message, error) {
	body, err := json.Marshal(map[string]string{"type": statechart.TimerEvent, "timer": resumeTimer})
	return durable.Message{To: to, Body: body, DeduplicationID: rand.Text()}, err
}

// Run nudges the instance if something is left to do.
func (c *resumeCommand) Run(ctx context.Context, s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	machine, _, _ := strings.Cut(c.Instance, "/")
	if err := c.check(known, machine); err != nil {
		return err
	}
	record, shown, err := c.read(ctx, s, c.Instance)
	if err != nil {
		return err
	}
	if shown.Problem != "" {
		return fmt.Errorf("problem: %s; nothing was sent to %s", shown.Problem, c.Instance)
	}
	answer := resumed{Instance: c.Instance, Needed: !shown.Settled || record.Owes(), State: shown.State, Settled: shown.Settled}
	if answer.Needed {
		message, err := nudge(record.Instance)
		if err != nil {
			return err
		}
		w := &waiter{session: s, flags: c.waitFlags, machines: known, queueFlag: c.Queue}
		if err := w.send(ctx, c.tableFlags, producer.Event{Message: message}); err != nil {
			return c.explain(s, err)
		}
		answer.MessageID = w.sent.MessageID
		if c.Wait != "" {
			if shown, _, err = w.await(ctx); err != nil {
				return c.explain(s, err)
			}
			answer.State, answer.Settled = shown.State, shown.Settled
		}
	}
	if c.json(s) {
		return s.printJSON(answer)
	}
	said := fmt.Sprintf("sent resume to %s as message %s", c.Instance, answer.MessageID)
	if !answer.Needed {
		said = "nothing to resume"
	}
	return s.printf("%s", s.style.Fold(said+"\n"+shown.Summary(s.style)+"\n"))
}
