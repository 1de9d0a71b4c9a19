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

// Help implements kong.HelpProvider.
func (*historyCommand) Help() string {
	return `The item of an instance keeps its last 20 transitions. To keep another number, set SETTLE_HISTORY_MAX for the consumer, or
durable.Config.HistoryMax in a loop of your own. Events, timers and the ends of services are included, ignored ones too.
JSON output has one transition a line.

For older transitions, search the log of the consumer. It has a line "event applied" for each event and, at the level debug
(SETTLE_LOG_LEVEL), a line "transition" for each transition.

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
	return view.WriteHistory(s.Out, s.style, record.History, s.Now().Location())
}
