package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/instances"
)

// parkedMax limits the parked events that the page shows.
const parkedMax = 200

// parkedData is the data of the page of parked events.
type parkedData struct {
	Messages []parkedRow
	// Total is the approximate number of messages. The queue may offer fewer at a time.
	Total, Shown int
	// Problem says why some queues could not be read, or is empty.
	Problem string
	// Redriven or Dropped is the ID of the message that a form has just changed. Otherwise, both are empty.
	Redriven, Dropped string
}

// parkedRow is a parked event. Its body has no task tokens.
type parkedRow struct {
	*deadletter.Message
	// Known is set if the console has a page for the instance.
	Known bool
	Tree  *node
	// Open is set if the page shows the body expanded.
	Open bool
}

// parkedPage receives the parked events, and returns them to their queues. Until it returns them, SQS hides them from
// other readers. So the page does not poll.
func (c *console) parkedPage(ctx context.Context, query url.Values) (*page, error) {
	messages, err := c.DeadLetters.Read(ctx, parkedMax)
	if err != nil && len(messages) == 0 {
		return nil, err
	}
	address := c.Prefix + "/parked"
	data := &parkedData{
		Total: c.countParked(ctx).Count, Shown: len(messages),
		Redriven: c.notice(address, query, "redriven"), Dropped: c.notice(address, query, "dropped"),
	}
	if err != nil {
		data.Problem = problemOf(err).Error()
	}
	for _, m := range messages {
		data.Messages = append(data.Messages, c.parkedRow(m))
	}
	return &page{Name: "parked", Title: "Parked events", Data: data}, nil
}

func (c *console) parkedRow(m *deadletter.Message) parkedRow {
	r := parkedRow{Message: m, Tree: treeOf(json.RawMessage(m.Shown()))}
	if id, err := instances.ParseID(m.Instance); err == nil {
		_, err = c.Machines.Lookup(id.Machine)
		r.Known = err == nil
	}
	return r
}

// isParked reports whether the segments are the address of a parked event that may be changed.
func (c *console) isParked(segments []string) bool {
	return len(segments) == 2 && segments[0] == "parked" && c.DeadLetters != nil && c.Write != nil && c.Write.Parked != nil
}

// parkedURL returns the address of the form for a parked event, or an empty text if this console may not change it.
func (c *console) parkedURL(messageID string) string {
	if !c.isParked([]string{"parked", messageID}) {
		return ""
	}
	return c.Prefix + "/parked/" + url.PathEscape(messageID)
}

// parkedForm reads the page on which a user confirms the change of a parked event.
func (c *console) parkedForm(ctx context.Context, messageID string) (*page, error) {
	messages, err := c.DeadLetters.Read(ctx, parkedMax)
	for _, m := range messages {
		if m.ID == messageID {
			row := c.parkedRow(m)
			row.Open = true
			return &page{Name: "parked-form", Title: "Redrive or drop", Data: row}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, notOffered(deadletter.ErrNotOffered)
}

// notOffered returns the page for a parked event that no queue offers.
func notOffered(err error) *problem {
	return notFound("The parked event is not there.", err.Error()+". It was redriven or dropped, another reader has just received it, or earlier events of its instance hold it back.")
}

// postParked redrives or drops a parked event.
func (c *console) postParked(ctx context.Context, messageID string, form url.Values) (answer, error) {
	var key string
	var err error
	switch form.Get("do") {
	case "redrive":
		key, err = "redriven", c.Write.Parked.Redrive(ctx, messageID)
	case "drop":
		key, err = "dropped", c.Write.Parked.Drop(ctx, messageID)
	default:
		return answer{}, &problem{http.StatusBadRequest, "The form cannot be read.", "Expected redrive or drop. Nothing was changed."}
	}
	c.mu.Lock()
	c.parked = parkedCount{} // Count again.
	c.mu.Unlock()
	switch {
	case errors.Is(err, deadletter.ErrNotOffered):
		return answer{}, notOffered(err)
	case err != nil:
		return answer{}, &problem{http.StatusBadGateway, "The parked event may be unchanged.", err.Error() + ". See the parked events, and try again."}
	}
	return answer{location: c.noticeURL(c.Prefix+"/parked", key, messageID)}, nil
}
