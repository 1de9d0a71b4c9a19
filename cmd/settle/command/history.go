package command

import (
	"context"

	"github.com/settle-run/settle/cmd/settle/internal/view"
)

type historyCommand struct {
	tableFlags
	Instance string `arg:"" help:"The instance, such as signup/42."`
	outputFlag
}

// Help tells how much there is.
func (*historyCommand) Help() string {
	return `The item of an instance keeps its last transitions, 20 unless the consumer's SETTLE_HISTORY_MAX says otherwise, or
durable.Config.HistoryMax of a loop of your own: events, timers and the ends of services, with those that no state had a
transition for. As JSON it is one a line. What was before is in the log of the consumer: a line "event applied" for each
event, and at the level debug (SETTLE_LOG_LEVEL) a line "transition" for each transition.

  settle history signup/42
  settle history signup/42 -o json | jq -r .event`
}

// Run prints the transitions, the oldest first.
func (c *historyCommand) Run(ctx context.Context, s *session) error {
	record, _, err := c.read(ctx, s, c.Instance)
	if err != nil {
		return err
	}
	if c.json(s) {
		for _, transition := range record.History {
			if err := s.printLine(transition); err != nil {
				return err
			}
		}
		return nil
	}
	return view.WriteHistory(s.out, s.style, record.History, s.now().Location())
}
