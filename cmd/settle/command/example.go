package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/statechart"
)

// awsVariables are what the aws CLI asks for before it talks to anybody.
const awsVariables = "AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1"

// example returns what dev shows people to try.
func (s *session) example() (Example, error) {
	if s.config.Dev.Example.Machine != "" {
		return s.config.Dev.Example, nil
	}
	known, err := s.machines()
	if err != nil {
		return Example{}, err
	}
	for _, id := range known.IDs() {
		machine, err := known.Lookup(id)
		if err != nil {
			return Example{}, err
		}
		if machine.TakesInput() {
			continue
		}
		events := machine.Events()
		if instance, _, err := machine.Start(statechart.Start{Instance: id + "/42"}); err == nil {
			events = slices.Concat(instance.NextEvents(), events) // Those that do something are better to try.
		}
		if k := slices.IndexFunc(events, machine.StartedBy); k >= 0 {
			return Example{Machine: id, Event: events[k]}, nil
		}
	}
	return Example{}, nil // Only parents start instances of these machines.
}

// print writes commands that send the event: of this program, of the aws CLI, of curl.
func (e Example) print(s *session, running *stack.Stack, settle string) error {
	if e.Machine == "" {
		return nil
	}
	var pairs strings.Builder
	body := map[string]string{"type": e.Event}
	for _, pair := range e.Payload {
		fmt.Fprintf(&pairs, " %s=%s", pair[0], pair[1])
		body[pair[0]] = pair[1]
	}
	event, err := json.Marshal(body)
	if err != nil {
		return err
	}
	next := ""
	if e.Next != "" {
		next = e.Next + "\n\n"
	}
	bold := s.style.Bold
	return s.printf(`%s

  %s send --local %s/42 %s%s
  %s get --local %s/42

%s%s

  %s \
    aws sqs send-message --endpoint-url %s \
    --queue-url %s \
    --message-group-id %s/43 --message-deduplication-id "try-$(date +%%s)" \
    --message-body '%s'
  %s \
    aws dynamodb get-item --endpoint-url %s \
    --table-name %s --key '{"instance": {"S": "%s/43"}}'

%s

  curl -i %s/instances/%s/44/events \
    -H 'Content-Type: application/json' \
    -d '%s'
  curl %s/instances/%s/44

`,
		bold("Try it in another terminal:"), settle, e.Machine, e.Event, pairs.String(), settle, e.Machine, next,
		bold("The stock aws CLI works too:"), awsVariables, running.AWSURL(), running.QueueURL(), e.Machine, event,
		awsVariables, running.AWSURL(), stack.Table, e.Machine,
		bold("So does HTTP:"), running.HTTPURL(), e.Machine, event, running.HTTPURL(), e.Machine)
}
