package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/producer"
)

type resumeCommand struct {
	tableFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" help:"The instance, such as signup/42."`
	waitFlags
	outputFlag
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

// Run wakes the instance if something is left to do.
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
	answer := resumed{Instance: c.Instance, Needed: operations.NeedsConsumer(known, record), State: shown.State, Settled: shown.Settled}
	if answer.Needed {
		message, err := operations.WakeUp(record.Instance, rand.Text())
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
	said := fmt.Sprintf("sent resume to %s as message %s", c.Instance, answer.MessageID)
	if !answer.Needed {
		said = "nothing to resume"
	}
	text := func() error { return s.printf("%s", s.style.Fold(said+"\n"+shown.Summary(s.style)+"\n")) }
	return c.answer(s, answer, text)
}
