package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/payload"
	"github.com/settle-run/settle/runtime/statechart"
)

// awsVariables are the settings that the aws CLI requires before any call.
const awsVariables = "AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1"

// trial is an event that dev suggests sending. If machine is empty, there is no suggestion.
type trial struct {
	machine, event string
	payload        []payload.Field
	// next is a sentence that says what to do after the event.
	next string
	// refused is the machine's error for the generated payload, or nil. If it is set, dev prints no generated values.
	refused error
}

// trial returns the event to suggest: Config.Dev.Example, or else an event that starts an instance with a generated
// payload.
func (s *session) trial() (trial, error) { return s.trialOf("") }

// trialOf is like trial, but for one machine if `only` is set. It prefers events that the initial state handles.
func (s *session) trialOf(only string) (trial, error) {
	if own := s.config.Dev.Example; own.Machine != "" && (only == "" || only == own.Machine) {
		return own.trial(), nil
	}
	known, err := s.machines()
	if err != nil {
		return trial{}, err
	}
	ids := known.IDs()
	if only != "" {
		ids = []string{only}
	}
	var moving, others []trial
	for _, id := range ids {
		machine, err := known.Lookup(id)
		if err != nil {
			return trial{}, err
		}
		if machine.TakesInput() {
			continue // Only parents start instances of this machine.
		}
		var next []string
		if instance, _, err := machine.Start(statechart.Start{Instance: id + "/42"}); err == nil {
			next = instance.NextEvents()
		}
		for _, event := range machine.Events() {
			if !machine.StartedBy(event) {
				continue
			}
			found, ok := s.tryOut(known, machine, event)
			switch {
			case !ok:
			case slices.Contains(next, event):
				moving = append(moving, found)
			default:
				others = append(others, found)
			}
		}
	}
	for _, trials := range [][]trial{moving, others} {
		if k := slices.IndexFunc(trials, func(t trial) bool { return t.refused == nil }); k >= 0 {
			return trials[k], nil
		}
		if len(trials) > 0 {
			return trials[0], nil
		}
	}
	return trial{}, nil
}

// tryOut generates a payload for the event. It adds optional fields only if the machine refuses a payload without them.
// It returns false if producers cannot send the event.
func (s *session) tryOut(known *durable.Machines, machine durable.Machine, event string) (trial, bool) {
	var found trial
	for _, optional := range []bool{false, true} {
		typ := machine.Describe().Payloads[event]
		t := trial{machine: machine.ID(), event: event, payload: payload.Sample(typ, s.Now(), optional)}
		_, err := known.Accept(instances.ID{Machine: t.machine, ID: "42"}, []byte(t.body()))
		if err == nil {
			return t, true
		}
		if errors.Is(err, durable.ErrReserved) {
			return trial{}, false
		}
		if t.refused = err; len(found.payload) == 0 {
			found = t
		}
	}
	return found, true
}

// trial converts the example.
func (e Example) trial() trial {
	t := trial{machine: e.Machine, event: e.Event, next: e.Next}
	for _, pair := range e.Payload {
		t.payload = append(t.payload, payload.Field{Key: pair[0], Value: jsonText(pair[1])})
	}
	return t
}

// jsonText returns a string as JSON.
func jsonText(text string) json.RawMessage {
	encoded, _ := json.Marshal(text) // A string always marshals.
	return encoded
}

// place marks a value that the user has to fill in.
const place = "..."

// fields returns the payload to print. If the machine refuses the payload, each value is `place`.
func (t trial) fields() []payload.Field {
	if t.refused == nil {
		return t.payload
	}
	if len(t.payload) == 0 {
		return []payload.Field{{Key: "key", Value: json.RawMessage(place)}}
	}
	shown := slices.Clone(t.payload)
	for k := range shown {
		shown[k].Value = json.RawMessage(place)
	}
	return shown
}

// body returns the event as JSON. If a value is `place`, the result is not valid JSON.
func (t trial) body() string {
	body := fmt.Sprintf(`{"type":%s`, jsonText(t.event))
	for _, field := range t.fields() {
		body += fmt.Sprintf(",%s:%s", jsonText(field.Key), field.Value)
	}
	return body + "}"
}

// plainKey matches keys that send accepts as key=value, without --json.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// arguments returns the payload as arguments of send, each after a space.
func (t trial) arguments() string {
	var pairs strings.Builder
	object := map[string]json.RawMessage{}
	plain := true
	for k, field := range t.fields() {
		text, sign := string(field.Value), ":="
		object[field.Key], plain = field.Value, plain && (text == place || plainKey.MatchString(field.Key))
		if len(t.payload) == 0 || t.payload[k].IsText() {
			sign = "="
		}
		if field.IsText() {
			_ = json.Unmarshal(field.Value, &text) // The value is a JSON string, so this cannot fail.
		}
		pairs.WriteString(" " + shellescape.Quote(field.Key+sign+text))
	}
	if plain {
		return pairs.String()
	}
	text, _ := json.Marshal(object) // Every value is JSON here: if one value is `place`, all are, and `plain` is true.
	return " --json " + shellescape.Quote(string(text))
}

// print prints commands that send the event with this program, the aws CLI and curl.
func (t trial) print(s *session, running *stack.Stack, settle string) error {
	if t.machine == "" {
		return nil
	}
	arguments, body := t.arguments(), t.body()
	first, next := "", ""
	if t.refused != nil {
		first = s.style.Fold(fmt.Sprintf("\nReplace %s with values of your own: no generated payload is valid for %s (%s).\n", place, t.machine, oneLine(t.refused)))
	}
	if t.next != "" {
		next = t.next + "\n\n"
	}
	bold := s.style.Bold
	return s.printf(`%s
%s
  %s send --local %s/42 %s%s
  %s get --local %s/42

%s%s

  %s \
    aws sqs send-message --endpoint-url %s \
    --queue-url %s \
    --message-group-id %s/43 --message-deduplication-id "try-$(date +%%s)" \
    --message-body %s
  %s \
    aws dynamodb get-item --endpoint-url %s \
    --table-name %s --key '{"instance": {"S": "%s/43"}}'

%s

  curl -i %s/instances/%s/44/events \
    -H 'Content-Type: application/json' \
    -d %s
  curl %s/instances/%s/44

`,
		bold("Try it in another terminal:"), first, settle, t.machine, shellescape.Quote(t.event), arguments, settle, t.machine, next,
		bold("The stock aws CLI works too:"), awsVariables, running.AWSURL(), running.QueueURL(), t.machine, shellescape.Quote(body),
		awsVariables, running.AWSURL(), stack.Table, t.machine,
		bold("So does HTTP:"), running.HTTPURL(), t.machine, shellescape.Quote(body), running.HTTPURL(), t.machine)
}
