package durable

import (
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// checkOwn reports why a body is not of the form in which the loop writes its own events of the type.
func checkOwn(typ, body string) error {
	forms := map[string]any{
		tendEvent: &tending{}, expiredEvent: &expired{}, aliasTakenEvent: &aliasTaken{}, endedEvent: &ended{},
		watchEvent: &watching{}, childEvent: &childEnd{}, failedEvent: &failing{},
	}
	if err := statechart.ReadJSON([]byte(body), forms[typ]); err != nil {
		return fmt.Errorf("%w: %s, which only the loop itself sends: %w", statechart.ErrPayload, typ, err)
	}
	return nil
}
