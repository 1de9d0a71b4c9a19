package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/producer"
)

// sentView is the response body for a queued event.
type sentView struct {
	// MessageID is the queue's ID of the message. If SQS drops the event as a duplicate, it is the ID of the first
	// message.
	MessageID string `json:"message_id"`
	Instance  string `json:"instance"`
	Type      string `json:"type"`
}

// appliedView is the response body for an event that was applied: the instance as GET shows it, and the event.
type appliedView struct {
	MessageID string `json:"message_id"`
	Type      string `json:"type"`
	// EventIgnored is set if the gateway knows that no transition matched the event.
	EventIgnored bool `json:"event_ignored"`
	instanceview.Instance
}

func (a *api) postEvent(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	return a.receive(r, func() (instances.ID, error) { return id, nil })
}

// aliasEventSuffix is the end of the path to which a client posts an event for an alias. An alias may contain slashes.
// API Gateway and http.ServeMux accept a parameter with slashes only at the end of a path, so the parameter includes
// the suffix.
const aliasEventSuffix = "/events"

// postAliasEvent sends an event to the instance that has an alias.
func (a *api) postAliasEvent(r *http.Request) (reply, error) {
	alias, ok := strings.CutSuffix(r.PathValue("alias"), aliasEventSuffix)
	if !ok {
		return reply{}, fmt.Errorf("%w: expected POST /aliases/{alias}/events, got POST %q", errNoRoute, r.URL.Path)
	}
	return a.receive(r, func() (instances.ID, error) { return a.find(r.Context(), alias) })
}

// receive reads an event from a request and sends it to the instance that `find` returns. If the request asks for the
// outcome, receive waits for it.
func (a *api) receive(r *http.Request, find func() (instances.ID, error)) (reply, error) {
	wait, err := waitOf(r.URL.RawQuery)
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
	to, err := find()
	if err != nil {
		return reply{}, err
	}
	event, err := a.prepare(to, body, key)
	if err != nil {
		return reply{}, err
	}
	if err := a.admit(r.Context(), event); err != nil {
		return reply{}, err
	}
	if wait > 0 {
		return a.sendAndWait(r.Context(), event, wait)
	}
	if err := a.reserve(r.Context(), event); err != nil {
		return reply{}, err
	}
	return a.enqueue(r.Context(), event)
}

// instanceID parses the instance ID from the path. The instance need not exist.
func (a *api) instanceID(r *http.Request) (instances.ID, error) {
	machine := r.PathValue("machine")
	if _, err := a.machines.Lookup(machine); err != nil {
		return instances.ID{}, err
	}
	return instances.ParseID(machine + "/" + r.PathValue("id"))
}

// prepare validates the event and builds its message.
func (a *api) prepare(to instances.ID, body []byte, eventID string) (producer.Event, error) {
	return producer.Check(a.machines, to, body, eventID, a.config.EventBytesMax)
}

// admit refuses an event if the instance's backlog is too old. Webhooks and callbacks do not call it: a third party may
// never resend a refused request, and each callback was requested by the instance itself.
func (a *api) admit(ctx context.Context, event producer.Event) error {
	err := a.producer.Admit(ctx, event)
	if err != nil && !errors.Is(err, producer.ErrBehind) {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	return err
}

// reserve reserves the ID of an event before the event is queued.
func (a *api) reserve(ctx context.Context, event producer.Event) error {
	err := a.producer.Reserve(ctx, event)
	switch {
	case errors.Is(err, dynamostore.ErrIDReused):
		return fmt.Errorf("%w; nothing was queued: use a new ID, or resend the original event unchanged", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errReserve, err)
	default:
		return nil
	}
}

// enqueue queues an event.
func (a *api) enqueue(ctx context.Context, event producer.Event) (reply, error) {
	sent, err := a.producer.Send(ctx, event)
	return a.queued(ctx, sent, err)
}

// queued returns the reply for a queued event.
func (a *api) queued(ctx context.Context, sent producer.Sent, err error) (reply, error) {
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errQueue, err)
	}
	to := sent.Message.To.String()
	a.config.Logger.InfoContext(ctx, "event queued", "instance", to, "type", sent.Type, "message_id", sent.MessageID)
	return reply{status: http.StatusAccepted, body: sentView{MessageID: sent.MessageID, Instance: to, Type: sent.Type}}, nil
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
		return "", fmt.Errorf("%w: expected Idempotency-Key to be non-empty UTF-8 text, got %q", producer.ErrEventID, key)
	}
	return key, nil
}

// readBody reads the whole body. It returns producer.ErrTooLarge if the body exceeds the limit. If the body's known
// length exceeds the limit, readBody reads nothing.
func readBody(r *http.Request, bytesMax int) ([]byte, error) {
	if r.ContentLength > int64(bytesMax) {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes, got %d: store the data elsewhere and send a reference", producer.ErrTooLarge, bytesMax, r.ContentLength)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(bytesMax)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	if len(body) > bytesMax {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes, got more: store the data elsewhere and send a reference", producer.ErrTooLarge, bytesMax)
	}
	return body, nil
}

// checkJSON checks the headers: the body must be JSON and uncompressed. A missing Content-Type counts as
// application/json, and so does a media type that ends in +json.
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
