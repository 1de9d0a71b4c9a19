package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// sentView is the answer to an event that the queue holds.
type sentView struct {
	// MessageID is the queue's. A repeat of an event that the queue remembers gets the
	// first one's.
	MessageID string `json:"message_id"`
	Instance  string `json:"instance"`
	Type      string `json:"type"`
}

func (a *api) postEvent(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := mediaType(r.Header, "application/json"); err != nil {
		return reply{}, err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return reply{}, err
	}
	body, err := readBody(r, a.config.EventBytesMax)
	if err != nil {
		return reply{}, err
	}
	return a.send(r.Context(), id, body, key)
}

// instanceID reads the name of the instance from the path. It need not exist.
func (a *api) instanceID(r *http.Request) (durable.InstanceID, error) {
	machine := r.PathValue("machine")
	if _, err := a.machines.Lookup(machine); err != nil {
		return durable.InstanceID{}, err
	}
	return durable.ParseInstanceID(machine + "/" + r.PathValue("id"))
}

// send checks the event, reserves its ID, and queues it under that ID: the one given, or the one that the event carries
// already. If both are there they must agree. Without an ID the event counts whenever it is sent.
func (a *api) send(ctx context.Context, to durable.InstanceID, body []byte, eventID string) (reply, error) {
	m, err := a.prepare(to, body, eventID)
	if err != nil {
		return reply{}, err
	}
	if m.eventID != "" {
		if err := a.reserve(ctx, m); err != nil {
			return reply{}, err
		}
	}
	return a.enqueue(ctx, m)
}

// reserve reserves the ID of an event that is about to be queued. If the process dies before the event is queued, the
// client repeats the request, and the reservation lets the same event pass.
func (a *api) reserve(ctx context.Context, m checked) error {
	err := a.store.Reserve(ctx, m.message.To, m.eventID, m.message.Body, a.config.Now())
	switch {
	case errors.Is(err, dynamostore.ErrIDReused):
		return fmt.Errorf("%w; nothing was queued: send this event with another ID, or the first one again as it was", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errReserve, err)
	default:
		return nil
	}
}

// checked is an event that the machine takes, ready to be queued.
type checked struct {
	message durable.Message
	typ     string
	// eventID is the event's own ID; empty if it has none.
	eventID string
}

// prepare checks the event and makes the message of it.
func (a *api) prepare(to durable.InstanceID, body []byte, eventID string) (checked, error) {
	if !utf8.Valid(body) {
		// encoding/json would take it; SQS would not.
		return checked{}, fmt.Errorf("%w: expected JSON in UTF-8", statechart.ErrNotAnEvent)
	}
	event, err := a.machines.Accept(to, body)
	if err != nil {
		return checked{}, err
	}
	switch {
	case eventID == "":
		eventID = event.ID
	case event.ID == "":
		body = withEventID(body, eventID)
	case event.ID != eventID:
		return checked{}, fmt.Errorf("%w: the header says %q and the event's $id %q: give one of them, or the same twice", errEventID, eventID, event.ID)
	}
	if len(eventID) > EventIDBytesMax {
		return checked{}, fmt.Errorf("%w: expected at most %d bytes, got %d", errEventID, EventIDBytesMax, len(eventID))
	}
	if len(body) > a.config.EventBytesMax {
		return checked{}, fmt.Errorf("%w: expected an event of at most %d bytes with its $id, got %d", errTooLarge, a.config.EventBytesMax, len(body))
	}
	deduplicationID := rand.Text()
	if eventID != "" {
		if deduplicationID, err = durable.DeduplicationID(to, eventID, body); err != nil {
			return checked{}, fmt.Errorf("%w: %w", statechart.ErrNotAnEvent, err)
		}
	}
	return checked{durable.Message{To: to, Body: body, DeduplicationID: deduplicationID}, event.Type, eventID}, nil
}

// enqueue queues an event.
func (a *api) enqueue(ctx context.Context, m checked) (reply, error) {
	messageID, err := a.sender.Send(ctx, m.message)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errQueue, err)
	}
	to := m.message.To.String()
	a.config.Logger.InfoContext(ctx, "event queued", "instance", to, "type", m.typ, "message_id", messageID)
	return reply{status: http.StatusAccepted, body: sentView{MessageID: messageID, Instance: to, Type: m.typ}}, nil
}

// idempotencyKey reads the event ID of the header Idempotency-Key: a structured string in its
// quotes, as draft-ietf-httpapi-idempotency-key-header has it, or bare, as most clients do.
func idempotencyKey(header http.Header) (string, error) {
	values, given := header["Idempotency-Key"]
	if !given {
		return "", nil
	}
	// Several lines of one header are one list (RFC 9110 5.3).
	key := strings.Join(values, ",")
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1])
	}
	if key == "" || !utf8.ValidString(key) {
		return "", fmt.Errorf("%w: expected some UTF-8 text in Idempotency-Key, or no such header, got %q", errEventID, key)
	}
	return key, nil
}

// withEventID returns the event with the ID as its last key: of two keys "$id", the last one
// counts.
func withEventID(event []byte, id string) []byte {
	quoted, err := json.Marshal(id)
	if err != nil {
		panic(err) // A string always marshals.
	}
	object := strings.TrimRight(string(event), " \t\r\n")
	return []byte(strings.TrimSuffix(object, "}") + `,"$id":` + string(quoted) + "}")
}
