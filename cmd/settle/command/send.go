package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/payload"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

type sendCommand struct {
	tableFlags
	waitFlags
	Queue    string   `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string   `arg:"" help:"The instance, such as signup/42. The event may create it. Left out with --alias."`
	Event    string   `arg:"" optional:"" help:"The event's type, such as VERIFY."`
	Payload  []string `arg:"" optional:"" name:"key=value" help:"The payload: key=value for a string, key:=value for JSON, as in attempt:=3."`
	JSON     string   `name:"json" placeholder:"OBJECT|-" help:"The payload as a JSON object, or - to read it from standard input."`
	Alias    string   `placeholder:"KEY" help:"Send to the instance that has this alias, or had it last, such as a third party's job ID."`
	ID       string   `name:"id" help:"The event's idempotency key. Sent again under the same ID, the event is applied once. A different event under the same ID is refused."`
	outputFlag
}

// Run validates the event, sends it, and waits if --wait is set.
func (c *sendCommand) Run(ctx context.Context, s *session) error {
	if c.Alias != "" {
		if err := c.resolve(ctx, s); err != nil {
			return err
		}
	}
	if c.Event == "" {
		return fmt.Errorf("%w: expected an instance and the type of an event, such as signup/42 VERIFY", errUsage)
	}
	to, err := instances.ParseID(c.Instance)
	if err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	body, err := c.body(ctx, s)
	if err != nil {
		return err
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	event, err := producer.Check(known, to, body, "", producer.EventBytesMax)
	if err != nil {
		if errors.Is(err, statechart.ErrPayload) { // A misspelled key may be the cause.
			s.noteIgnoredKeys(to.Machine, c.Event, body)
		}
		return withHint(err)
	}
	if err := c.check(known, to.Machine); err != nil {
		return err
	}
	s.noteIgnoredKeys(to.Machine, c.Event, body)
	// Without --id, each send is a new event: sending RESEND twice means two events.
	w := &waiter{session: s, flags: c.waitFlags, machines: known, queueFlag: c.Queue}
	if err := w.send(ctx, c.tableFlags, event); err != nil {
		return c.explain(s, err)
	}
	if c.Wait == "" {
		return c.print(s, w.sent.MessageID, nil, false)
	}
	shown, ignored, err := w.await(ctx)
	if err != nil {
		return c.explain(s, err)
	}
	return c.print(s, w.sent.MessageID, &shown, ignored)
}

// resolve finds the instance that has the alias. The first argument is then the event.
func (c *sendCommand) resolve(ctx context.Context, s *session) error {
	if c.Event != "" {
		c.Payload = append([]string{c.Event}, c.Payload...)
	}
	c.Event = c.Instance
	id, err := c.find(ctx, s, c.Alias)
	c.Instance = id.String()
	return err
}

// sentAnswer is the JSON output: the keys of the gateway's response and, after a wait, the state of the instance.
type sentAnswer struct {
	MessageID string `json:"message_id"`
	Instance  string `json:"instance"`
	Type      string `json:"type"`

	Status   statechart.Status `json:"status,omitempty"`
	State    []string          `json:"state,omitempty"`
	Tags     []string          `json:"tags,omitempty"`
	Revision int64             `json:"revision,omitempty"`
	Ignored  bool              `json:"ignored,omitempty"`
}

// print prints the answer. `shown` is the instance after a wait, else nil. `ignored` reports whether the event is known
// to have been ignored.
func (c *sendCommand) print(s *session, messageID string, shown *view.Instance, ignored bool) error {
	answer := sentAnswer{MessageID: messageID, Instance: c.Instance, Type: c.Event, Ignored: ignored}
	if shown != nil {
		answer.Status, answer.State, answer.Tags, answer.Revision = shown.Status, shown.State, shown.Tags, shown.Revision
	}
	if c.json(s) {
		return s.printJSON(answer)
	}
	if err := s.printf("sent %s to %s as message %s\n", c.Event, c.Instance, messageID); err != nil || shown == nil {
		return err
	}
	said := ""
	if ignored {
		said = eventIgnored
	}
	return s.printf("%s", s.style.Fold(shown.Summary(s.style)+said+"\n"))
}

func (c *sendCommand) body(ctx context.Context, s *session) (json.RawMessage, error) {
	if len(c.ID) > producer.EventIDBytesMax {
		return nil, fmt.Errorf("%w: --id: expected at most %d bytes, got %d", errUsage, producer.EventIDBytesMax, len(c.ID))
	}
	payload, err := c.payload(ctx, s)
	if err != nil {
		return nil, err
	}
	return eventBody(payload, c.Event, c.ID)
}

// eventBody adds the type to the payload. It also adds the ID, unless that is empty.
func eventBody(payload map[string]json.RawMessage, typ, id string) (body json.RawMessage, err error) {
	for key, value := range map[string]string{"type": typ, "$id": id} {
		if _, twice := payload[key]; twice {
			return nil, fmt.Errorf("%w: the payload must not have the key %q, which the command itself sets", errUsage, key)
		}
		if value == "" {
			continue
		}
		if payload[key], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(payload)
}

func (c *sendCommand) payload(ctx context.Context, s *session) (map[string]json.RawMessage, error) {
	text := []byte(c.JSON)
	switch {
	case c.JSON != "" && len(c.Payload) > 0:
		return nil, fmt.Errorf("%w: expected the payload as key=value or as --json, got both", errUsage)
	case c.JSON == "":
		return pairs(c.Payload)
	case c.JSON == "-":
		var err error
		if text, err = s.readInput(ctx); err != nil {
			return nil, fmt.Errorf("reading the payload: %w", err)
		}
	}
	if len(text) > producer.EventBytesMax {
		return nil, fmt.Errorf("%w: expected an event of at most %d bytes, got a larger payload: store the data elsewhere and send a reference", errRefused, producer.EventBytesMax)
	}
	var payload map[string]json.RawMessage
	if err := json.Unmarshal(text, &payload); err != nil || payload == nil {
		return nil, fmt.Errorf(`%w: expected a JSON object such as {"code": "123456"} in --json, got %.80q`, errUsage, text)
	}
	return payload, nil
}

// pairs parses a payload of key=value and key:=value.
func pairs(arguments []string) (map[string]json.RawMessage, error) {
	payload := map[string]json.RawMessage{}
	for _, argument := range arguments {
		key, value, ok := strings.Cut(argument, "=")
		raw := strings.HasSuffix(key, ":")
		key = strings.TrimSuffix(key, ":")
		if !ok || key == "" {
			return nil, fmt.Errorf("%w: expected key=value or key:=JSON, got %q", errUsage, argument)
		}
		if _, twice := payload[key]; twice {
			return nil, fmt.Errorf("%w: the key %q is given twice", errUsage, key)
		}
		text := json.RawMessage(value)
		if !raw {
			var err error
			if text, err = json.Marshal(value); err != nil {
				return nil, err
			}
		} else if !json.Valid(text) {
			return nil, fmt.Errorf("%w: expected JSON after %s:=, got %q; write a string as %s=%s", errUsage, key, value, key, value)
		}
		payload[key] = text
	}
	return payload, nil
}

// withHint adds a hint to an error about a string in the payload: how to write values of other types. A nested string
// gets no hint, because the user has already written it as JSON.
func withHint(err error) error {
	var mismatch *statechart.JSONError
	if errors.Is(err, statechart.ErrPayload) && errors.As(err, &mismatch) && mismatch.Key != "" && !strings.ContainsAny(mismatch.Key, ".[") && (mismatch.Got == "a string" || mismatch.Got == "an empty string") {
		return fmt.Errorf("%w; write numbers, booleans, lists and objects as %s:=value", err, mismatch.Key)
	}
	return err
}

// noteIgnoredKeys warns about keys that may be misspelled: no hosted version of the machine decodes them into the
// event's payload. If a version accepts any key, there is no warning.
func (s *session) noteIgnoredKeys(machineID, event string, body json.RawMessage) {
	var keys, ignored []string
	declared := 0
	for _, machine := range s.versions(machineID) {
		var sent map[string]any
		if !slices.Contains(machine.Events(), event) || json.Unmarshal(body, &sent) != nil {
			continue
		}
		maps.DeleteFunc(sent, func(key string, _ any) bool { return payload.Reserved(key) })
		typ := machine.Describe().Payloads[event]
		unknown := payload.Unknown(typ, sent)
		if declared++; declared == 1 {
			ignored = unknown
		}
		ignored = slices.DeleteFunc(ignored, func(key string) bool { return !slices.Contains(unknown, key) })
		keys = append(keys, payload.Keys(typ)...)
	}
	if len(ignored) == 0 {
		return
	}
	slices.Sort(ignored)
	slices.Sort(keys)
	takes := "no keys"
	if len(keys) > 0 {
		takes = "the keys " + strings.Join(slices.Compact(keys), ", ")
	}
	for i, key := range ignored {
		ignored[i] = strconv.Quote(key)
	}
	s.note("%s: warning: unknown payload keys are ignored: %s; %s takes %s", s.name(), strings.Join(ignored, ", "), event, takes)
}
