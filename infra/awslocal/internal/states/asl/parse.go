package asl

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// stateNameMax is the maximum length of a state name, in characters.
const stateNameMax = 80

// Parse parses a definition. The machine is nil if there are findings.
func Parse(definition string) (*Machine, Findings) {
	var findings Findings
	value, err := document.Decode(definition)
	fields, isObject := value.(map[string]any)
	switch {
	case err != nil:
		findings.add("/", invalidJSON, "the definition is not JSON: %v", err)
		return nil, findings
	case !isObject:
		findings.add("/", invalidJSON, "the definition is not a JSON object")
		return nil, findings
	}
	o := newObject(fields, "", &findings)
	m := &Machine{All: make(map[string]*State)}
	o.comment()
	o.language()
	if version := o.text("Version"); version != "" && version != "1.0" {
		o.find("Version", "expected version 1.0, got %s", version)
	}
	m.Timeout = time.Duration(o.number("TimeoutSeconds", 1, numberMax, 0)) * time.Second
	m.Flow = *o.flow(m)
	o.done()
	if len(findings) > 0 {
		return nil, findings
	}
	return m, nil
}

// language rejects query languages other than JSONPath.
func (o *object) language() {
	if language := o.text("QueryLanguage"); language == "JSONata" {
		o.findings.add(o.path+"/QueryLanguage", notSupportedHere, "awslocal does not support JSONata: write the state machine with JSONPath")
	} else if language != "" && language != "JSONPath" {
		o.find("QueryLanguage", "expected JSONPath, got %s", language)
	}
}

// flow parses StartAt and States, and checks that every state is reachable.
func (o *object) flow(m *Machine) *Flow {
	f := &Flow{StartAt: o.required("StartAt"), States: make(map[string]*State)}
	states := o.object("States")
	if states == nil {
		if !o.failed("States") {
			o.find("States", "it is required")
		}
		return f
	}
	if len(states.fields) == 0 {
		o.find("States", "expected at least one state")
	}
	for _, name := range slices.Sorted(maps.Keys(states.fields)) {
		if s := states.object(name); s != nil {
			f.States[name] = s.state(name, m)
		}
	}
	if f.StartAt != "" && !states.has(f.StartAt) {
		o.findings.add(o.path+"/StartAt", targetMissing, "Missing 'StartAt' target: %s", f.StartAt)
	}
	f.checkTargets(o, states)
	return f
}

// target is a field that names another state.
type target struct{ field, name string }

func (s *State) targets() []target {
	var targets []target
	if s.Next != "" {
		targets = append(targets, target{"Next", s.Next})
	}
	if s.Default != "" {
		targets = append(targets, target{"Default", s.Default})
	}
	for _, rule := range s.Rules {
		targets = append(targets, target{"Choices", rule.Next})
	}
	for _, catcher := range s.Catch {
		targets = append(targets, target{"Catch", catcher.Next})
	}
	return targets
}

// checkTargets reports transitions to missing states, and unreachable states.
func (f *Flow) checkTargets(o, states *object) {
	reached := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s := f.States[name]
		if s == nil || reached[name] {
			return
		}
		reached[name] = true
		for _, t := range s.targets() {
			visit(t.name)
		}
	}
	visit(f.StartAt)
	for _, name := range slices.Sorted(maps.Keys(f.States)) {
		path := states.path + "/" + name
		for _, t := range f.States[name].targets() {
			if t.name != "" && !states.has(t.name) {
				o.findings.add(path+"/"+t.field, targetMissing, "Missing '%s' target: %s", t.field, t.name)
			}
		}
		if !reached[name] && states.has(f.StartAt) {
			o.findings.add(path, targetMissing, "State \"%s\" is not reachable.", name)
		}
	}
}

// state parses one state.
func (o *object) state(name string, m *Machine) *State {
	s := &State{Name: name, Type: o.required("Type")}
	if utf8.RuneCountInString(name) > stateNameMax {
		o.findings.add(o.path, schemaInvalid, "the name of a state has at most %d characters", stateNameMax)
	}
	if m.All[name] != nil {
		o.findings.add(o.path, duplicateName, "Duplicate State name: %s", name)
	}
	m.All[name] = s
	o.comment()
	o.language()
	read := map[string]func(*object, *State, *Machine){
		Pass: (*object).passState, Task: (*object).taskState, Choice: (*object).choiceState, Wait: (*object).waitState,
		Succeed: (*object).succeedState, Fail: (*object).failState, Parallel: (*object).parallelState, Map: (*object).mapState,
	}[s.Type]
	if read == nil {
		if !o.failed("Type") {
			o.find("Type", "expected Pass, Task, Choice, Wait, Succeed, Fail, Parallel or Map, got %s", s.Type)
		}
		return s
	}
	read(o, s, m)
	o.done()
	return s
}

// next parses Next or End.
func (o *object) next(s *State) {
	s.Next = o.text("Next")
	end, hasEnd := o.take("End")
	switch {
	case hasEnd && !isBoolean(end):
		o.find("End", "expected a boolean, got %s", document.Encode(end))
	case s.Next != "" && end == true:
		o.find("End", "it cannot be combined with Next")
	case s.Next == "" && end != true && !o.failed("Next"):
		o.findings.add(o.path, schemaInvalid, "These fields are required: [Next] or [End]")
	}
}

func (o *object) filters(s *State) {
	s.InputPath = o.filter("InputPath")
	s.OutputPath = o.filter("OutputPath")
}

func (o *object) passState(s *State, _ *Machine) {
	o.filters(s)
	o.next(s)
	s.Parameters = o.template("Parameters")
	s.ResultPath = o.resultPath()
	s.Result, s.HasResult = o.take("Result")
}

func (o *object) choiceState(s *State, _ *Machine) {
	o.filters(s)
	s.Rules = o.rules()
	s.Default = o.text("Default")
}

func (o *object) succeedState(s *State, _ *Machine) { o.filters(s) }

func (o *object) failState(s *State, _ *Machine) {
	s.Error = o.textOrPath("Error")
	s.Cause = o.textOrPath("Cause")
}

func (o *object) waitState(s *State, _ *Machine) {
	o.filters(s)
	o.next(s)
	var kinds []string
	for _, name := range []string{"Seconds", "SecondsPath", "Timestamp", "TimestampPath"} {
		if o.has(name) {
			kinds = append(kinds, name)
		}
	}
	if len(kinds) != 1 {
		o.findings.add(o.path, schemaInvalid, "expected exactly one of Seconds, SecondsPath, Timestamp and TimestampPath, got [%s]", strings.Join(kinds, ", "))
	}
	s.Delay = o.numberOrPath("Seconds", 0)
	s.UntilPath = o.pathField("TimestampPath", jsonpath.ParseReference)
	if text := o.text("Timestamp"); text != "" {
		until, ok := timestamp(text)
		if !ok {
			o.find("Timestamp", "expected a timestamp such as 2016-03-14T01:59:00Z, got %s", text)
		}
		s.Until = until
	}
}

func (o *object) parallelState(s *State, m *Machine) {
	o.filters(s)
	o.next(s)
	o.results(s)
	s.Parameters = o.template("Parameters")
	branches := o.objects("Branches")
	if len(branches) == 0 && !o.failed("Branches") {
		o.find("Branches", "expected at least one branch")
	}
	for _, branch := range branches {
		branch.comment()
		branch.language()
		s.Branches = append(s.Branches, branch.flow(m))
		branch.done()
	}
}

func (o *object) mapState(s *State, m *Machine) {
	o.filters(s)
	o.next(s)
	o.results(s)
	s.ItemsPath = o.filter("ItemsPath")
	s.MaxConcurrency = o.numberOrPath("MaxConcurrency", 0)
	s.Parameters = o.template("ItemSelector")
	if o.has("Parameters") { // Parameters is the older name of ItemSelector.
		if s.Parameters != nil {
			o.find("Parameters", "it cannot be combined with ItemSelector")
		}
		s.Parameters = o.template("Parameters")
	}
	name := "ItemProcessor"
	if o.has("Iterator") { // Iterator is the older name of ItemProcessor.
		name = "Iterator"
	}
	processor := o.object(name)
	if processor == nil {
		if !o.failed(name) {
			o.find(name, "it is required")
		}
		return
	}
	processor.comment()
	processor.language()
	if config := processor.object("ProcessorConfig"); config != nil {
		if mode := config.text("Mode"); mode == "DISTRIBUTED" {
			o.findings.add(config.path+"/Mode", notSupportedHere, "awslocal does not support distributed maps: write INLINE")
			config.take("ExecutionType")
		} else if mode != "" && mode != "INLINE" {
			config.find("Mode", "expected INLINE, got %s", mode)
		}
		config.done()
	}
	s.Branches = []*Flow{processor.flow(m)}
	processor.done()
}

// results parses the fields of states that have a result and may fail.
func (o *object) results(s *State) {
	s.ResultSelector = o.template("ResultSelector")
	s.ResultPath = o.resultPath()
	s.Retry = o.retriers()
	s.Catch = o.catchers()
}
