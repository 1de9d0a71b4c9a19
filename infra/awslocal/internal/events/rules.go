package events

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/events/pattern"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	enabled  = "ENABLED"
	disabled = "DISABLED"
)

// empty is an output without members.
type empty struct{}

type busInput struct{ Name, Description string }

func (m *Model) createBus(now time.Time, in *busInput) (any, *wire.Error) {
	if err := checkName("name", in.Name, 256, "/.-_"); err != nil {
		return nil, err
	}
	if _, exists := m.buses[in.Name]; exists {
		return nil, wire.Errorf("ResourceAlreadyExistsException", "Event bus %s already exists.", in.Name)
	}
	m.buses[in.Name] = &bus{CreatedAt: now.UTC(), Description: in.Description, Rules: map[string]*rule{}}
	m.touched.Note(busRecords + in.Name)
	return map[string]string{"EventBusArn": busARN(in.Name)}, nil
}

// busOutput is a bus in the answers of DescribeEventBus and ListEventBuses.
type busOutput struct {
	Arn, Name   string
	Description string `json:",omitempty"`
	// CreationTime is in seconds since 1970.
	CreationTime int64
}

func (b *bus) output(name string) busOutput {
	return busOutput{Arn: busARN(name), Name: name, Description: b.Description, CreationTime: b.CreatedAt.Unix()}
}

type nameInput struct{ Name string }

func (m *Model) describeBus(_ time.Time, in *nameInput) (any, *wire.Error) {
	name, b, err := m.find(in.Name)
	if err != nil {
		return nil, err
	}
	return b.output(name), nil
}

type prefixInput struct{ NamePrefix, EventBusName string }

func (m *Model) listBuses(_ time.Time, in *prefixInput) (any, *wire.Error) {
	found := []busOutput{}
	for _, name := range slices.Sorted(maps.Keys(m.buses)) {
		if strings.HasPrefix(name, in.NamePrefix) {
			found = append(found, m.buses[name].output(name))
		}
	}
	return map[string]any{"EventBuses": found}, nil
}

// deleteBus deletes a bus and its rules. Deleting a bus that does not exist is not an error.
func (m *Model) deleteBus(_ time.Time, in *nameInput) (any, *wire.Error) {
	name := busName(in.Name)
	if name == defaultBus {
		return nil, validation("Cannot delete event bus default.")
	}
	if b, ok := m.buses[name]; ok {
		for each := range b.Rules {
			m.touched.Note(ruleRecord(name, each))
		}
		delete(m.buses, name)
		m.touched.Note(busRecords + name)
	}
	return empty{}, nil
}

type ruleInput struct{ Name, EventBusName, EventPattern, State, Description string }

func (m *Model) putRule(_ time.Time, in *ruleInput) (any, *wire.Error) {
	if err := checkName("name", in.Name, 64, ".-_"); err != nil {
		return nil, err
	}
	onBus, b, err := m.find(in.EventBusName)
	if err != nil {
		return nil, err
	}
	if in.EventPattern == "" {
		return nil, validation("Parameter(s) EventPattern must be specified: awslocal does not support ScheduleExpression.")
	}
	compiled, invalid := pattern.Parse(in.EventPattern)
	if invalid != nil {
		return nil, wire.Errorf("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", invalid)
	}
	switch in.State {
	case "":
		in.State = enabled
	case enabled, disabled:
	default:
		return nil, validation("expected the State %s or %s, got %s", enabled, disabled, in.State)
	}
	changed := &rule{EventPattern: in.EventPattern, State: in.State, Description: in.Description, compiled: compiled}
	if r, exists := b.Rules[in.Name]; exists {
		changed.Targets = r.Targets
	}
	b.Rules[in.Name] = changed
	m.touched.Note(ruleRecord(onBus, in.Name))
	return map[string]string{"RuleArn": ruleARN(onBus, in.Name)}, nil
}

// ruleOutput is a rule in the answers of DescribeRule and ListRules.
type ruleOutput struct {
	Name, Arn, EventPattern, State string
	Description                    string `json:",omitempty"`
	EventBusName                   string
}

func (r *rule) output(onBus, name string) ruleOutput {
	return ruleOutput{Name: name, Arn: ruleARN(onBus, name), EventPattern: r.EventPattern, State: r.State, Description: r.Description, EventBusName: onBus}
}

type ruleNameInput struct {
	Name, EventBusName string
	Force              bool // only for rules that AWS services manage
}

func (m *Model) describeRule(_ time.Time, in *ruleNameInput) (any, *wire.Error) {
	onBus, r, err := m.findRule(in.EventBusName, in.Name)
	if err != nil {
		return nil, err
	}
	return r.output(onBus, in.Name), nil
}

func (m *Model) listRules(_ time.Time, in *prefixInput) (any, *wire.Error) {
	onBus, b, err := m.find(in.EventBusName)
	if err != nil {
		return nil, err
	}
	found := []ruleOutput{}
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		if strings.HasPrefix(name, in.NamePrefix) {
			found = append(found, b.Rules[name].output(onBus, name))
		}
	}
	return map[string]any{"Rules": found}, nil
}

// deleteRule deletes a rule without targets. Deleting a rule that does not exist is not an error.
func (m *Model) deleteRule(_ time.Time, in *ruleNameInput) (any, *wire.Error) {
	onBus, b, err := m.find(in.EventBusName)
	if err != nil {
		return nil, err
	}
	if r, ok := b.Rules[in.Name]; ok {
		if len(r.Targets) > 0 {
			return nil, validation("Rule can't be deleted since it has targets.")
		}
		delete(b.Rules, in.Name)
		m.touched.Note(ruleRecord(onBus, in.Name))
	}
	return empty{}, nil
}

func (m *Model) enableRule(_ time.Time, in *ruleNameInput) (any, *wire.Error) {
	return m.setState(in, enabled)
}

func (m *Model) disableRule(_ time.Time, in *ruleNameInput) (any, *wire.Error) {
	return m.setState(in, disabled)
}

func (m *Model) setState(in *ruleNameInput, state string) (any, *wire.Error) {
	onBus, r, err := m.findRule(in.EventBusName, in.Name)
	if err != nil {
		return nil, err
	}
	r.State = state
	m.touched.Note(ruleRecord(onBus, in.Name))
	return empty{}, nil
}

type targetsInput struct {
	Rule, EventBusName string
	Targets            []target
}

// putTargets adds targets and replaces those with the same IDs.
func (m *Model) putTargets(_ time.Time, in *targetsInput) (any, *wire.Error) {
	onBus, r, err := m.findRule(in.EventBusName, in.Rule)
	if err != nil {
		return nil, err
	}
	after := slices.Clone(r.Targets)
	for _, t := range in.Targets {
		if err := t.check(); err != nil {
			return nil, err
		}
		after = append(slices.DeleteFunc(after, func(other target) bool { return other.Id == t.Id }), t)
	}
	if len(after) > targetsMax {
		return nil, wire.Errorf("LimitExceededException", "The requested resource exceeds the maximum number allowed: expected at most %d targets of a rule, got %d", targetsMax, len(after))
	}
	r.Targets = after
	m.touched.Note(ruleRecord(onBus, in.Rule))
	return failedEntries{FailedEntries: []any{}}, nil
}

// check returns an error unless the target is a queue. A FIFO queue needs a message group.
func (t target) check() *wire.Error {
	if err := checkName("targets.id", t.Id, 64, ".-_"); err != nil {
		return err
	}
	name, isQueue := strings.CutPrefix(t.Arn, queueARNPrefix)
	if !isQueue || name == "" || strings.ContainsAny(name, ":/") {
		return validation("awslocal does not support the target %s; it supports queues, %s...", t.Arn, queueARNPrefix)
	}
	if isFIFO := strings.HasSuffix(name, ".fifo"); isFIFO != (t.SqsParameters != nil && t.SqsParameters.MessageGroupId != "") {
		return validation("Parameter(s) SqsParameters not valid for target %s: expected SqsParameters.MessageGroupId for a FIFO queue, and only for one.", t.Id)
	}
	return nil
}

type failedEntries struct {
	FailedEntryCount int
	FailedEntries    []any
}

type ruleOfTargets struct{ Rule, EventBusName string }

func (m *Model) listTargets(_ time.Time, in *ruleOfTargets) (any, *wire.Error) {
	_, r, err := m.findRule(in.EventBusName, in.Rule)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Targets": append([]target{}, r.Targets...)}, nil
}

type removedTargets struct {
	Rule, EventBusName string
	Ids                []string
	Force              bool // only for rules that AWS services manage
}

func (m *Model) removeTargets(_ time.Time, in *removedTargets) (any, *wire.Error) {
	onBus, r, err := m.findRule(in.EventBusName, in.Rule)
	if err != nil {
		return nil, err
	}
	r.Targets = slices.DeleteFunc(slices.Clone(r.Targets), func(t target) bool { return slices.Contains(in.Ids, t.Id) })
	m.touched.Note(ruleRecord(onBus, in.Rule))
	return failedEntries{FailedEntries: []any{}}, nil
}
