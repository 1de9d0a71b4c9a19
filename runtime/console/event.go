package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/payload"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// eventData is the data of the page of an event: the form for its payload, beside the instance's chart.
type eventData struct {
	*instanceData
	Event    string
	Accepted bool
	Fields   []*field
	EventID  string
	// Refusal says why the event was not sent, or is empty.
	Refusal string
	// Command is the command line that sends the event, and Trial is what the event would do. Both are set only for a
	// posted form.
	Command string
	Trial   *trial
}

// field is a key of a payload in a form.
type field struct {
	// Key is empty for the whole payload.
	Key string
	// Kind is "string", "number", "boolean", "time" or "JSON".
	Kind          string
	Value, Sample string
	// Refused is set if this value is the reason why the event was refused.
	Refused bool
}

// Name returns the name of the form's element.
func (f *field) Name() string { return "payload." + f.Key }

// isEvent reports whether the segments are the address of an event's page.
func isEvent(segments []string) bool {
	return len(segments) == 5 && segments[0] == "instances" && segments[3] == "events"
}

// eventURL returns the address of the form for an event to the instance with the name machine/id.
func (c *console) eventURL(name, event string) string {
	return c.instanceURL(name) + "/events/" + url.PathEscape(event)
}

// eventPage reads the page of an event.
func (c *console) eventPage(ctx context.Context, name, event string) (*page, error) {
	p, _, err := c.readEvent(ctx, name, event)
	return p, err
}

func (c *console) readEvent(ctx context.Context, name, event string) (*page, *eventData, error) {
	of, machine, err := c.readInstance(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(machine.Events(), event) {
		return nil, nil, notFound("There is no such event.", fmt.Sprintf("Machine %s takes %s from outside.", machine.ID(), strings.Join(machine.Events(), ", ")))
	}
	if of.Status != statechart.Active {
		return nil, nil, &problem{http.StatusConflict, "The instance has ended.", "It ignores all events."}
	}
	of.Marks.Taken, of.Marks.Parked = nil, nil
	data := &eventData{
		instanceData: of, Event: event, Accepted: slices.Contains(of.NextEvents, event),
		Fields: c.fieldsOf(machine.Describe().Payloads[event]),
	}
	return &page{Name: "event", Title: event + " to " + name, Data: data}, data, nil
}

// fieldsOf returns the form fields for the payload type, none if it is nil. A type without known keys gets one field.
func (c *console) fieldsOf(typ reflect.Type) (fields []*field) {
	if typ == nil {
		return nil
	}
	schema := payload.Schema(typ, payload.Input)
	samples := map[string]payload.Field{}
	for _, sample := range payload.Sample(typ, c.Now().UTC(), true) {
		samples[sample.Key] = sample
	}
	properties, isObject := schema["properties"].(map[string]any)
	if !isObject {
		return []*field{{Kind: "JSON", Sample: "{}"}}
	}
	for _, key := range payload.Keys(typ) {
		property, _ := properties[key].(map[string]any)
		f := &field{Key: key, Kind: fieldKind(property), Sample: string(samples[key].Value)}
		if samples[key].IsText() && f.Kind != "JSON" {
			_ = json.Unmarshal(samples[key].Value, &f.Sample) // Sample is valid JSON.
		}
		fields = append(fields, f)
	}
	return fields
}

// fieldKind returns the Kind of a field whose values have the schema.
func fieldKind(schema map[string]any) string {
	switch schema["type"] {
	case "string":
		if schema["format"] == "date-time" {
			return "time"
		}
		return "string"
	case "integer", "number":
		return "number"
	case "boolean":
		return "boolean"
	default:
		return "JSON"
	}
}

// fill puts the values of a posted form into the fields, and returns the event's body. Empty values are left out.
func (d *eventData) fill(form url.Values) (json.RawMessage, error) {
	body := map[string]json.RawMessage{}
	d.EventID = form.Get("id")
	for _, f := range d.Fields {
		f.Value = form.Get(f.Name())
		text := strings.TrimSpace(f.Value)
		if text == "" {
			continue
		}
		value, err := f.json(text)
		if err == nil && f.Key == "" {
			if err = json.Unmarshal(value, &body); body == nil {
				err = errors.New("got null")
			}
		} else if err == nil {
			body[f.Key] = value
		}
		if err != nil {
			f.Refused = true
			return nil, fmt.Errorf("%s: expected %s: %w", cmp.Or(f.Key, "the payload"), f.Kind, err)
		}
	}
	for key, value := range map[string]string{"type": d.Event, "$id": d.EventID} {
		if _, twice := body[key]; twice {
			return nil, fmt.Errorf("expected a payload without the key %q, which the form sets", key)
		}
		if value != "" {
			body[key] = mustJSON(value)
		}
	}
	return json.Marshal(body)
}

// json returns the JSON of a value from the form. text is the value without surrounding space.
func (f *field) json(text string) (json.RawMessage, error) {
	switch f.Kind {
	case "string":
		return mustJSON(f.Value), nil
	case "time":
		return mustJSON(text), nil
	default:
		var value json.RawMessage
		decoder := json.NewDecoder(strings.NewReader(text))
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if rest := bytes.TrimSpace([]byte(text[decoder.InputOffset():])); len(rest) > 0 {
			return nil, fmt.Errorf("got more than one value")
		}
		return value, nil
	}
}

// mustJSON returns the JSON of a string, which always marshals.
func mustJSON(text string) json.RawMessage {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return encoded
}

// postEvent handles the form of an event.
func (c *console) postEvent(ctx context.Context, name, event string, form url.Values) (answer, error) {
	p, data, err := c.readEvent(ctx, name, event)
	if err != nil {
		return answer{}, err
	}
	id, err := instances.ParseID(name)
	if err != nil {
		return answer{}, err
	}
	body, err := data.fill(form)
	var checked producer.Event
	if err == nil {
		checked, err = producer.Check(c.Machines, id, body, "", producer.EventBytesMax)
	}
	if err != nil {
		p.Status = http.StatusUnprocessableEntity
		if errors.Is(err, producer.ErrTooLarge) {
			p.Status = http.StatusRequestEntityTooLarge
		}
		data.refuse(err)
		return answer{page: p}, nil
	}
	data.Command = c.command(data, body)
	if form.Get("do") != "send" {
		data.Trial, err = c.try(data, body)
		return answer{page: p}, err
	}
	sent, err := c.send(ctx, checked)
	if err != nil {
		p.Status = http.StatusBadGateway
		if errors.Is(err, dynamostore.ErrIDReused) {
			p.Status = http.StatusConflict
		}
		data.Refusal = err.Error()
		return answer{page: p}, nil
	}
	return answer{location: c.noticeURL(c.instanceURL(name), "sent", sent.MessageID)}, nil
}

// refuse shows why the event is invalid. If one field is the cause, it shows the reason there.
func (d *eventData) refuse(err error) {
	d.Refusal = err.Error() + "; nothing was sent"
	var mismatch *statechart.JSONError
	if !errors.As(err, &mismatch) {
		return
	}
	for _, f := range d.Fields {
		f.Refused = f.Key != "" && (f.Key == mismatch.Key || strings.HasPrefix(mismatch.Key, f.Key+".") || strings.HasPrefix(mismatch.Key, f.Key+"["))
	}
}

// send reserves the event's ID and queues the event.
func (c *console) send(ctx context.Context, event producer.Event) (producer.Sent, error) {
	p := producer.New(c.Machines, c.Write.Queue, c.Write.Store, c.Now)
	switch err := p.Reserve(ctx, event); {
	case errors.Is(err, dynamostore.ErrIDReused):
		return producer.Sent{}, fmt.Errorf("%w; nothing was sent: use another ID, or send the first event again unchanged", err)
	case err != nil:
		return producer.Sent{}, fmt.Errorf("reserving the event's ID: %w; nothing was sent", err)
	}
	sent, err := p.Send(ctx, event)
	switch {
	case err == nil:
		return sent, nil
	case errors.Is(err, durable.ErrDenied), errors.Is(err, durable.ErrRefused):
		return sent, fmt.Errorf("%w; nothing was sent", err)
	default:
		return sent, fmt.Errorf("%w; the event may be in the queue or not: see the instance before you send it again", err)
	}
}
