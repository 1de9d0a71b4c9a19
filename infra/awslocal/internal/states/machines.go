package states

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/states/intrinsic"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	definitionBytesMax = 1 << 20
	nameMax            = 80
	tagsMax            = 50
)

type (
	tag struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	// awslocal accepts loggingConfiguration and tracingConfiguration only if they are off.
	loggingConfiguration struct {
		Level                string            `json:"level"`
		IncludeExecutionData bool              `json:"includeExecutionData"`
		Destinations         []json.RawMessage `json:"destinations"`
	}
	tracingConfiguration struct {
		Enabled bool `json:"enabled"`
	}

	createStateMachineInput struct {
		Name, Definition, RoleArn, Type string
		Tags                            []tag
		LoggingConfiguration            loggingConfiguration
		TracingConfiguration            tracingConfiguration
		Publish                         bool
	}
	updateStateMachineInput struct {
		StateMachineArn, Definition, RoleArn string
		LoggingConfiguration                 loggingConfiguration
		TracingConfiguration                 tracingConfiguration
		Publish                              bool
	}
	stateMachineInput struct{ StateMachineArn string }
	listInput         struct {
		MaxResults int
		NextToken  string
	}
	validateInput struct {
		Definition, Type, Severity string
		MaxResults                 int
	}
	tagResourceInput struct {
		ResourceArn string
		Tags        []tag
	}
	untagResourceInput struct {
		ResourceArn string
		TagKeys     []string
	}
	listTagsInput struct{ ResourceArn string }
)

// checkOff rejects unsupported features of a state machine.
func checkOff(logging loggingConfiguration, tracing tracingConfiguration, publish bool) *wire.Error {
	switch {
	case (logging.Level != "" && logging.Level != "OFF") || len(logging.Destinations) > 0 || logging.IncludeExecutionData:
		return wire.Errorf("InvalidLoggingConfiguration", "awslocal does not support loggingConfiguration other than level OFF: use GetExecutionHistory for the events")
	case tracing.Enabled:
		return wire.Errorf("InvalidTracingConfiguration", "awslocal does not support tracingConfiguration with enabled true")
	case publish:
		return validation("awslocal does not support the parameter publish: it has no versions of state machines")
	}
	return nil
}

// checkName rejects invalid names of state machines and executions.
func checkName(name string) *wire.Error {
	forbidden := strings.ContainsFunc(name, func(r rune) bool {
		return strings.ContainsRune(" \t\n\r<>{}[]?*\"#%\\^|~`$&,;:/", r) || r < 0x20 || (r >= 0x7f && r <= 0x9f)
	})
	if name == "" || utf8.RuneCountInString(name) > nameMax || forbidden {
		return wire.Errorf("InvalidName", "Invalid Name: '%s': expected 1 to %d characters without white space, brackets, wildcards and special characters", name, nameMax)
	}
	return nil
}

// parseDefinition parses a definition. It rejects a definition with findings.
func parseDefinition(definition string) (*asl.Machine, *wire.Error) {
	if len(definition) > definitionBytesMax {
		return nil, wire.Errorf("InvalidDefinition", "Invalid State Machine Definition: it has %d bytes, at most %d are allowed", len(definition), definitionBytesMax)
	}
	parsed, findings := asl.Parse(definition)
	if len(findings) > 0 {
		return nil, wire.Errorf("InvalidDefinition", "%s", findings)
	}
	return parsed, nil
}

// createStateMachine creates a state machine. A repeated call with the same name and definition changes nothing.
func (m *Model) createStateMachine(now time.Time, in *createStateMachineInput) (any, *wire.Error) {
	if in.Type != "" && in.Type != "STANDARD" {
		return nil, wire.Errorf("StateMachineTypeNotSupported", "State Machine Type %s is not supported by awslocal, only STANDARD", in.Type)
	}
	for _, err := range []*wire.Error{
		required("definition", in.Definition), required("roleArn", in.RoleArn), checkName(in.Name),
		checkOff(in.LoggingConfiguration, in.TracingConfiguration, in.Publish), checkRole(in.RoleArn),
	} {
		if err != nil {
			return nil, err
		}
	}
	parsed, err := parseDefinition(in.Definition)
	if err != nil {
		return nil, err
	}
	if x, exists := m.machines[in.Name]; exists {
		switch {
		case x.Deleting:
			return nil, wire.Errorf("StateMachineDeleting", "State Machine is being deleted: '%s'", x.arn())
		case x.revision.Definition != in.Definition:
			return nil, wire.Errorf("StateMachineAlreadyExists", "State Machine Already Exists: '%s'", x.arn())
		}
		return map[string]any{"stateMachineArn": x.arn(), "creationDate": epoch(x.Created)}, nil
	}
	x := &machine{Name: in.Name, Created: now, Tags: make(map[string]string), executions: make(map[string][]uint64)}
	if err := x.tag(in.Tags); err != nil {
		return nil, err
	}
	x.serial = m.count(&m.counters.Machine)
	m.machines[x.Name], m.serials[x.serial] = x, x
	m.revise(x, &revision{machine: parsed, Definition: in.Definition, RoleARN: in.RoleArn, At: now})
	return map[string]any{"stateMachineArn": x.arn(), "creationDate": epoch(x.Created)}, nil
}

func checkRole(arn string) *wire.Error {
	if !strings.HasPrefix(arn, "arn:aws") || !strings.Contains(arn, ":iam::") {
		return wire.Errorf("InvalidArn", "Invalid Role Arn: '%s'", arn)
	}
	return nil
}

// findMachine returns the machine with the given ARN.
func (m *Model) findMachine(arn string) (*machine, *wire.Error) {
	if err := required("stateMachineArn", arn); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(arn, "arn:aws:states:") || !strings.Contains(arn, ":stateMachine:") {
		return nil, wire.Errorf("InvalidArn", "Invalid Arn: 'Invalid ARN prefix: %s'", arn)
	}
	name := strings.TrimPrefix(arn, machineARN)
	if strings.Contains(name, ":") {
		return nil, validation("awslocal does not support versions and aliases of state machines, or other accounts: '%s' does not exist", arn)
	}
	x, ok := m.machines[name]
	if !ok {
		return nil, wire.Errorf("StateMachineDoesNotExist", "State Machine Does Not Exist: '%s'", arn)
	}
	return x, nil
}

// updateStateMachine changes the definition, the role or both. Running executions keep the definition and the role with
// which they started.
func (m *Model) updateStateMachine(now time.Time, in *updateStateMachineInput) (any, *wire.Error) {
	x, err := m.findMachine(in.StateMachineArn)
	if err == nil {
		err = checkOff(in.LoggingConfiguration, in.TracingConfiguration, in.Publish)
	}
	if err != nil {
		return nil, err
	}
	if x.Deleting {
		return nil, wire.Errorf("StateMachineDeleting", "State Machine is being deleted: '%s'", x.arn())
	}
	if in.Definition == "" && in.RoleArn == "" {
		return nil, wire.Errorf("MissingRequiredParameter", "Either the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration must be specified")
	}
	next := *x.revision
	if in.Definition != "" {
		if next.machine, err = parseDefinition(in.Definition); err != nil {
			return nil, err
		}
		next.Definition = in.Definition
	}
	if in.RoleArn != "" {
		if err := checkRole(in.RoleArn); err != nil {
			return nil, err
		}
		next.RoleARN = in.RoleArn
	}
	next.At, next.ID = now, uuid("revision", m.counters.Revision+1)
	m.revise(x, &next)
	return map[string]any{"updateDate": epoch(now), "revisionId": next.ID}, nil
}

// uuid returns a UUID derived from a kind and a serial number.
func uuid(kind string, serial uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, serial))
	return intrinsic.UUID([16]byte(sum[:16]))
}

func (m *Model) describeStateMachine(_ time.Time, in *stateMachineInput) (any, *wire.Error) {
	x, err := m.findMachine(in.StateMachineArn)
	if err != nil {
		return nil, err
	}
	out := x.describe(x.revision)
	out["creationDate"], out["type"], out["status"] = epoch(x.Created), "STANDARD", "ACTIVE"
	if x.Deleting {
		out["status"] = "DELETING"
	}
	return out, nil
}

// describe returns the members that the answers of DescribeStateMachine and DescribeStateMachineForExecution share.
func (x *machine) describe(r *revision) map[string]any {
	out := map[string]any{
		"stateMachineArn": x.arn(), "name": x.Name, "definition": r.Definition, "roleArn": r.RoleARN,
		"loggingConfiguration": map[string]any{"level": "OFF", "includeExecutionData": false},
		"tracingConfiguration": map[string]any{"enabled": false},
	}
	if r.ID != "" {
		out["revisionId"] = r.ID
	}
	return out
}

// deleteStateMachine marks a machine for deletion. Its running executions are aborted when they enter their next state.
// The machine is removed once no execution runs. Deleting an unknown machine is not an error.
func (m *Model) deleteStateMachine(_ time.Time, in *stateMachineInput) (any, *wire.Error) {
	x, err := m.findMachine(in.StateMachineArn)
	if err != nil {
		if err.Code == "StateMachineDoesNotExist" {
			return struct{}{}, nil
		}
		return nil, err
	}
	x.Deleting = true
	m.note(machineKey, x.serial)
	m.removeIfIdle(x)
	return struct{}{}, nil
}

// listStateMachines lists machines by name.
func (m *Model) listStateMachines(_ time.Time, in *listInput) (any, *wire.Error) {
	n, err := page(in.MaxResults)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(m.machines))
	first := 0
	if in.NextToken != "" { // NextToken is the last name of the previous page.
		i, found := slices.BinarySearch(names, in.NextToken)
		if first = i; found {
			first++
		}
	}
	listed := []any{}
	out := map[string]any{}
	for _, name := range names[first:] {
		if len(listed) == n {
			out["nextToken"] = listed[n-1].(map[string]any)["name"]
			break
		}
		x := m.machines[name]
		listed = append(listed, map[string]any{"stateMachineArn": x.arn(), "name": name, "type": "STANDARD", "creationDate": epoch(x.Created)})
	}
	out["stateMachines"] = listed
	return out, nil
}

// validateStateMachineDefinition lists the findings in a definition.
func (m *Model) validateStateMachineDefinition(_ time.Time, in *validateInput) (any, *wire.Error) {
	if err := required("definition", in.Definition); err != nil {
		return nil, err
	}
	if in.Type != "" && in.Type != "STANDARD" {
		return nil, validation("awslocal does not support state machines of type %s", in.Type)
	}
	most := in.MaxResults
	if most <= 0 || most > 100 {
		most = 100
	}
	_, findings := asl.Parse(in.Definition)
	result, diagnostics := "OK", []any{}
	for _, finding := range findings[:min(most, len(findings))] {
		result = "FAIL"
		diagnostics = append(diagnostics, map[string]any{"severity": "ERROR", "code": finding.Code, "message": finding.Message, "location": finding.Location})
	}
	return map[string]any{"result": result, "diagnostics": diagnostics, "truncated": len(findings) > most}, nil
}

// tag adds tags to a machine. It replaces tags with the same key.
func (x *machine) tag(tags []tag) *wire.Error {
	all := maps.Clone(x.Tags)
	for _, t := range tags {
		if t.Key == "" {
			return required("tags.key", "")
		}
		all[t.Key] = t.Value
	}
	if len(all) > tagsMax {
		return wire.Errorf("TooManyTags", "A resource has at most %d tags, %s would have %d", tagsMax, x.arn(), len(all))
	}
	x.Tags = all
	return nil
}

// findResource returns the machine with the resource ARN that a tagging operation names.
func (m *Model) findResource(arn string) (*machine, *wire.Error) {
	if err := required("resourceArn", arn); err != nil {
		return nil, err
	}
	x, err := m.findMachine(arn)
	if err != nil && err.Code == "StateMachineDoesNotExist" {
		return nil, wire.Errorf("ResourceNotFound", "Resource not found: '%s'", arn)
	}
	return x, err
}

func (m *Model) tagResource(_ time.Time, in *tagResourceInput) (any, *wire.Error) {
	x, err := m.findResource(in.ResourceArn)
	if err == nil {
		err = x.tag(in.Tags)
	}
	if err != nil {
		return nil, err
	}
	m.note(machineKey, x.serial)
	return struct{}{}, nil
}

func (m *Model) untagResource(_ time.Time, in *untagResourceInput) (any, *wire.Error) {
	x, err := m.findResource(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(x.Tags, key)
	}
	m.note(machineKey, x.serial)
	return struct{}{}, nil
}

func (m *Model) listTagsForResource(_ time.Time, in *listTagsInput) (any, *wire.Error) {
	x, err := m.findResource(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags := []tag{}
	for _, key := range slices.Sorted(maps.Keys(x.Tags)) {
		tags = append(tags, tag{key, x.Tags[key]})
	}
	return map[string]any{"tags": tags}, nil
}
