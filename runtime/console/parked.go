package console

import (
	"context"
	"encoding/json"

	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/instances"
)

// parkedMax is how many parked events the page shows.
const parkedMax = 200

// parkedData is the data of the page of parked events.
type parkedData struct {
	Messages []parkedRow
	// Total is about how many messages there are. The queue may offer fewer at a time.
	Total, Shown int
}

// parkedRow is a parked event. Its body has no task tokens.
type parkedRow struct {
	*deadletter.Message
	// Known is set if the console has a page for the instance.
	Known bool
	Tree  *node
}

// parkedPage receives the parked events, and returns them to their queues. SQS hides a message from other readers until
// then, so the page does not repeat it.
func (c *console) parkedPage(ctx context.Context) (*page, error) {
	messages, err := c.DeadLetters.Read(ctx, parkedMax)
	if err != nil {
		return nil, err
	}
	data := &parkedData{Total: c.countParked(ctx).Count, Shown: len(messages)}
	for _, m := range messages {
		r := parkedRow{Message: m, Tree: treeOf(json.RawMessage(m.Shown()))}
		if id, err := instances.ParseID(m.Instance); err == nil {
			_, err = c.Machines.Lookup(id.Machine)
			r.Known = err == nil
		}
		data.Messages = append(data.Messages, r)
	}
	return &page{Name: "parked", Title: "Parked events", Data: data, Static: true}, nil
}
