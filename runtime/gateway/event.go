package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// sentView is the response body for a queued event.
type sentView struct {
	// MessageID is the queue's ID of the message. If SQS drops the event as a duplicate, it is the ID of the first
	// message.
	MessageID string `json:"message_id"`
	Instance  string `json:"instance"`
	Type      string `json:"type"`
}

func (a *api) postEvent(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	if err := checkJSON(r.Header); err != nil {
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

// instanceID parses the instance ID from the path. The instance need not exist.
func (a *api) instanceID(r *http.Request) (instances.ID, error) {
	machine := r.PathValue("machine")
	if _, err := a.machines.Lookup(machine); err != nil {
		return instances.ID{}, err
	}
	return instances.ParseID(machine + "/" + r.PathValue("id"))
}

// send validates the event, reserves its ID and queues it. The ID is eventID or the event's own $id. If both are given,
// they must be equal. An event without an ID is never deduplicated.
func (a *api) send(ctx context.Context, to instances.ID, body []byte, eventID string) (reply, error) {
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

// reserve reserves the ID of an event before the event is queued. If the process dies in between, the client's retry
// reuses the reservation.
func (a *api) reserve(ctx context.Context, m checked) error {
	err := a.store.Reserve(ctx, m.message.To, m.eventID, m.message.Body, a.config.Now())
	switch {
	case errors.Is(err, dynamostore.ErrIDReused):
		return fmt.Errorf("%w; nothing was queued: use a new ID, or resend the original event unchanged", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errReserve, err)
	default:
		return nil
	}
}

// checked is a valid event, ready to be queued.
type checked struct {
	message durable.Message
	typ     string
	// eventID is the event's ID, empty if it has none.
	eventID string
}

// prepare validates the event and builds its message.
func (a *api) prepare(to instances.ID, body []byte, eventID string) (checked, error) {
	if !utf8.Valid(body) {
		// encoding/json accepts invalid UTF-8. SQS does not.
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
		return checked{}, fmt.Errorf("%w: the Idempotency-Key is %q but the event's $id is %q: send only one of them, or the same value in both", errEventID, eventID, event.ID)
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

func (a *api) enqueue(ctx context.Context, m checked) (reply, error) {
	messageID, err := a.sender.Send(ctx, m.message)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errQueue, err)
	}
	to := m.message.To.String()
	a.config.Logger.InfoContext(ctx, "event queued", "instance", to, "type", m.typ, "message_id", messageID)
	return reply{status: http.StatusAccepted, body: sentView{MessageID: messageID, Instance: to, Type: m.typ}}, nil
}

// idempotencyKey returns the event ID from the header Idempotency-Key. It accepts a quoted string, as
// draft-ietf-httpapi-idempotency-key-header requires, or a bare one, as most clients send it.
func idempotencyKey(header http.Header) (string, error) {
	values, given := header["Idempotency-Key"]
	if !given {
		return "", nil
	}
	// Several lines of one header form one list (RFC 9110, 5.3).
	key := strings.Join(values, ",")
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1])
	}
	if key == "" || !utf8.ValidString(key) {
		return "", fmt.Errorf("%w: expected Idempotency-Key to be non-empty UTF-8 text, got %q", errEventID, key)
	}
	return key, nil
}

// withEventID appends the ID to the event as its last key. If the event has two keys "$id", decoders use the last one.
func withEventID(event []byte, id string) []byte {
	quoted, err := json.Marshal(id)
	if err != nil {
		panic(err) // A string always marshals.
	}
	object := strings.TrimRight(string(event), " \t\r\n")
	return []byte(strings.TrimSuffix(object, "}") + `,"$id":` + string(quoted) + "}")
}

// readBody reads the whole body. It returns errTooLarge if the body exceeds the limit, and reads nothing of a body whose
// length is known to exceed it.
func readBody(r *http.Request, bytesMax int) ([]byte, error) {
	if r.ContentLength > int64(bytesMax) {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes, got %d", errTooLarge, bytesMax, r.ContentLength)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(bytesMax)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	if len(body) > bytesMax {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes", errTooLarge, bytesMax)
	}
	return body, nil
}

// checkJSON checks that the body is JSON that is not compressed. No Content-Type, and media types that end in +json, count
// as application/json.
func checkJSON(header http.Header) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("%w: expected a body without Content-Encoding, got %q", errMediaType, encoding)
	}
	given := header.Get("Content-Type")
	if given == "" {
		return nil
	}
	name, _, err := mime.ParseMediaType(given)
	isJSON := name == "application/json" || strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json")
	if err != nil || !isJSON {
		return fmt.Errorf("%w: expected the Content-Type application/json, got %q", errMediaType, given)
	}
	return nil
}
