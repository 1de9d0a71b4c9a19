package inspector

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

// ancestorsMax limits how far the client follows the parents of an instance.
const ancestorsMax = 32

// client sends the instances and their changes to one connection.
type client struct {
	config  *Config
	commits chan durable.Committed
	// drop ends the connection with a reason.
	drop context.CancelCauseFunc
	send func(ctx context.Context, message []byte) error
	// known holds the instances that have been sent, by name. Only follow uses it.
	known map[string]actor
}

// actor is an instance that has been sent to the client.
type actor struct {
	createdAt time.Time // distinguishes the instance from earlier ones with its name
	revision  int64     // of the last snapshot
	root      string
	children  map[string]instanceview.Child // by ID
}

// follow sends the existing instances and then the commits, until ctx ends or a write fails.
func (c *client) follow(ctx context.Context) error {
	if err := c.sendExisting(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case committed := <-c.commits:
			if _, err := c.show(ctx, committed, ancestorsMax); err != nil {
				return err
			}
		}
	}
}

// sendExisting sends up to existingMax instances, active ones first.
func (c *client) sendExisting(ctx context.Context) error {
	left := existingMax
	for _, status := range []statechart.Status{statechart.Active, statechart.Done, statechart.Stopped} {
		for cursor, more := "", true; more && left > 0; more = cursor != "" {
			page, err := c.config.Store.ListPage(ctx, dynamostore.Filter{Status: status}, left, cursor)
			if err != nil {
				return fmt.Errorf("listing the instances: %w", err)
			}
			for _, record := range page.Records {
				if _, err := c.show(ctx, durable.Committed{Record: record}, ancestorsMax); err != nil {
					return err
				}
			}
			cursor, left = page.Cursor, left-len(page.Records)
		}
	}
	return nil
}

// show sends the events of a commit and the snapshot that the commit stored, unless that snapshot or a later one has
// been sent. If the instance has not been sent yet, show first sends its actor. If it has, show sends nothing for a
// commit without transitions. show returns the name of the oldest ancestor.
func (c *client) show(ctx context.Context, committed durable.Committed, ancestors int) (root string, err error) {
	record, name := committed.Record, committed.Record.Instance.String()
	before, known := c.known[name]
	known = known && !record.CreatedAt.After(before.createdAt) // Otherwise, it is a new instance with the same name.
	if known && (record.CreatedAt.Before(before.createdAt) || record.Revision <= before.revision) {
		return before.root, nil
	}
	view, err := instanceview.Of(c.config.Machines, record)
	if err != nil {
		c.config.Logger.Warn("inspector leaves out a commit", "instance", name, "revision", record.Revision, "error", err)
		return name, nil
	}
	if root = before.root; !known {
		if root, err = c.rootOf(ctx, view, ancestors); err != nil {
			return "", err
		}
		m := newMessage(actorMessage, view, root, "actor", record.CreatedAt)
		m.Name, m.ParentID, m.Definition, m.Snapshot = name, view.Parent, definition(c.config.Machines, record), snapshotOf(view)
		if err := c.write(ctx, m); err != nil {
			return "", err
		}
	}
	c.known[name] = actor{record.CreatedAt, record.Revision, root, view.Children}
	last := lastEvent(record)
	for i, transition := range committed.Transitions {
		last = eventOf(transition.Event, committed.Events[i].Payload)
		m := newMessage(eventMessage, view, root, strconv.Itoa(i), transition.At)
		m.Event, m.SourceID = last, sourceOf(transition.Event, view.Parent, before.children)
		if err := c.write(ctx, m); err != nil {
			return "", err
		}
	}
	if known && len(committed.Transitions) == 0 {
		return root, nil
	}
	m := newMessage(snapshotMessage, view, root, "snapshot", record.UpdatedAt)
	m.Event, m.Snapshot = last, snapshotOf(view)
	return root, c.write(ctx, m)
}

// rootOf returns the name of the oldest ancestor. It sends the ancestors that have not been sent yet.
func (c *client) rootOf(ctx context.Context, view instanceview.Instance, ancestors int) (string, error) {
	if view.Parent == "" {
		return view.Name, nil
	}
	if parent, known := c.known[view.Parent]; known {
		return parent.root, nil
	}
	if ancestors == 0 {
		return view.Parent, nil
	}
	id, err := instances.ParseID(view.Parent)
	var record instances.Record
	if err == nil {
		record, err = c.config.Store.Load(ctx, id)
	}
	if err != nil {
		return "", fmt.Errorf("reading the parent of %s: %w", view.Name, err)
	}
	if record.Revision == 0 {
		return view.Parent, nil
	}
	return c.show(ctx, durable.Committed{Record: record}, ancestors-1)
}

// sourceOf returns the instance that sent an event to a child or a parent, or "" if it is unknown.
func sourceOf(event, parent string, children map[string]instanceview.Child) string {
	for _, prefix := range []string{"done.child.", "error.child."} {
		if id, ok := strings.CutPrefix(event, prefix); ok {
			return children[id].Instance
		}
	}
	if event == statechart.ReservedPrefix+"start" || event == statechart.ReservedPrefix+"stop" {
		return parent
	}
	return ""
}

func (c *client) write(ctx context.Context, m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message of %s: %w", m.SessionID, err)
	}
	return c.send(ctx, text)
}
