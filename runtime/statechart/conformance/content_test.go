package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/settle-run/settle/runtime/statechart"
)

// contentError is an error of executable content, with the details that SCION reports.
type contentError struct {
	element *element
	sendID  string
	err     error
}

func (e *contentError) Error() string {
	return fmt.Sprintf("<%s> in line %d: %v", e.element.name, e.element.line, e.err)
}

func (e *contentError) Unwrap() error { return e.err }

// at adds the element to an error as its location, unless the error already has a location.
func at(e *element, err error) error {
	var known *contentError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &contentError{element: e, err: err}
}

// contentActions returns an action that runs the executable content of an element.
func contentActions(e *element) []action {
	if len(e.children) == 0 {
		return nil
	}
	return []action{statechart.EnqueueActions(e.name, func(env *env, event statechart.Event, enqueue statechart.Enqueue) error {
		env.bind(event)
		return env.run(e.children, &enqueue)
	})}
}

// startAction initialises the data model before any state is entered.
func startAction(d *document) action {
	return statechart.EnqueueActions("start", func(env *env, event statechart.Event, enqueue statechart.Enqueue) error {
		var failures []error
		for _, e := range dataBelow(d.root, true) {
			env.declare(e.attrs["id"])
		}
		for _, e := range dataBelow(d.root, d.root.attrs["binding"] != "late") {
			failures = append(failures, env.initialise(e))
		}
		for _, script := range d.root.all("script") {
			failures = append(failures, at(script, env.script(script)))
		}
		return env.report(failures, enqueue)
	})
}

// dataBelow returns the data elements of a state and, if `deep` is set, of its descendants.
func dataBelow(e *element, deep bool) []*element {
	var data []*element
	for _, child := range e.children {
		if child.name == "datamodel" {
			data = append(data, child.all("data")...)
		} else if deep && isState(child) {
			data = append(data, dataBelow(child, deep)...)
		}
	}
	return data
}

// entryAction performs the entry of a state. It initialises late-bound data, then runs each <onentry> block separately,
// and stores the data of a final state.
func entryAction(d *document, e *element) action {
	late := d.root.attrs["binding"] == "late"
	return statechart.EnqueueActions("onentry", func(env *env, event statechart.Event, enqueue statechart.Enqueue) error {
		env.bind(event)
		env.active[d.id(e)] = true
		var failures []error
		if late && !env.entered[e] {
			for _, data := range dataBelow(e, false) {
				failures = append(failures, env.initialise(data))
			}
		}
		env.entered[e] = true
		for _, block := range e.all("onentry") {
			failures = append(failures, env.run(block.children, &enqueue))
		}
		if e.name == "final" {
			failures = append(failures, env.doneData(e.one("donedata")))
		}
		return env.report(failures, enqueue)
	})
}

func exitAction(d *document, e *element) action {
	return statechart.EnqueueActions("onexit", func(env *env, event statechart.Event, enqueue statechart.Enqueue) error {
		env.bind(event)
		var failures []error
		for _, block := range e.all("onexit") {
			failures = append(failures, env.run(block.children, &enqueue))
		}
		delete(env.active, d.id(e))
		return env.report(failures, enqueue)
	})
}

// report raises all failures except the last, and returns the last for the engine to raise.
func (s *sessionData) report(failures []error, enqueue statechart.Enqueue) error {
	var last error
	for _, failure := range failures {
		if failure == nil {
			continue
		}
		if last != nil {
			if err := enqueue.Raise(statechart.ExecutionError, errorMessage(last)); err != nil {
				return err
			}
		}
		last = failure
	}
	return last
}

// run runs a block of executable content up to the first error. If `enqueue` is nil, only the data model can be
// changed.
func (s *sessionData) run(block []*element, enqueue *statechart.Enqueue) error {
	for _, e := range block {
		if err := s.execute(e, enqueue); err != nil {
			return at(e, err)
		}
	}
	return nil
}

func (s *sessionData) execute(e *element, enqueue *statechart.Enqueue) error {
	switch e.name {
	case "raise":
		return enqueue.Raise(e.attrs["event"], &message{Kind: "internal"})
	case "send":
		return s.send(e, *enqueue)
	case "cancel":
		id, err := s.stringOf(e, "sendid")
		if err == nil {
			enqueue.Cancel(id)
			s.host.cancelLater(id)
		}
		return err
	case "assign":
		value, err := s.value(e)
		if err != nil {
			return err
		}
		return s.assign(e.attrs["location"], value)
	case "script":
		return s.script(e)
	case "log":
		value, err := s.evaluate(e.attrs["expr"])
		if err == nil {
			s.host.world.log = append(s.host.world.log, strings.Trim(e.attrs["label"], ": ")+": "+value.String())
		}
		return err
	case "if":
		return s.choose(e, enqueue)
	case "foreach":
		return s.foreach(e, enqueue)
	default:
		return fmt.Errorf("unknown executable content")
	}
}

// choose runs the first branch of an <if> whose condition holds.
func (s *sessionData) choose(e *element, enqueue *statechart.Enqueue) error {
	holds, err := s.condition(e.attrs["cond"])
	if err != nil {
		return err
	}
	var branch []*element
	for _, child := range e.children {
		if child.name == "elseif" || child.name == "else" {
			if holds {
				break
			}
			if holds = child.name == "else"; !holds {
				if holds, err = s.condition(child.attrs["cond"]); err != nil {
					return err
				}
			}
		} else if holds {
			branch = append(branch, child)
		}
	}
	return s.run(branch, enqueue)
}

var variable = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// foreach runs the content of a <foreach> for each item of a copy of the array.
func (s *sessionData) foreach(e *element, enqueue *statechart.Enqueue) error {
	array, err := s.evaluate(e.attrs["array"])
	if err != nil {
		return err
	}
	object, ok := array.(*goja.Object)
	if !ok || object.ClassName() != "Array" {
		return fmt.Errorf("expected an array, got %v", array)
	}
	var items []goja.Value
	for i := range object.Get("length").ToInteger() {
		items = append(items, object.Get(fmt.Sprint(i)))
	}
	for _, name := range []string{"item", "index"} {
		if e.has(name) && !variable.MatchString(e.attrs[name]) {
			return fmt.Errorf("expected the name of a variable, got %q", e.attrs[name])
		}
		if e.has(name) {
			s.declare(e.attrs[name])
		}
	}
	for i, item := range items {
		if err := s.assign(e.attrs["item"], item); err != nil {
			return err
		}
		if e.has("index") {
			if err := s.assign(e.attrs["index"], s.js.ToValue(i)); err != nil {
				return err
			}
		}
		if err := s.run(e.children, enqueue); err != nil {
			return err
		}
	}
	return nil
}

// scxmlProcessor is the full name of the only event processor.
const scxmlProcessor = "http://www.w3.org/TR/scxml/#SCXMLEventProcessor"

func isSCXMLProcessor(name string) bool {
	return name == "" || name == "scxml" || name == scxmlProcessor
}

func (s *sessionData) send(e *element, enqueue statechart.Enqueue) error {
	var text [5]string
	var failure error
	for i, name := range []string{"event", "target", "type", "delay", "id"} {
		value, err := s.stringOf(e, name)
		text[i], failure = value, errors.Join(failure, err)
	}
	event, target, typ, delayText, id := text[0], text[1], text[2], text[3], text[4]
	if location, ok := e.attrs["idlocation"]; ok {
		s.ids++
		id = fmt.Sprintf("send.%d", s.ids)
		failure = errors.Join(failure, s.assign(location, s.js.ToValue(id)))
	}
	sent, err := s.payload(e)
	failure = errors.Join(failure, err)
	delay, err := parseDelay(delayText)
	if failure = errors.Join(failure, err); failure == nil && !isSCXMLProcessor(typ) {
		failure = fmt.Errorf("the processor %q is not supported", typ)
	}
	if failure != nil {
		return &contentError{element: e, sendID: id, err: failure}
	}
	sent.Kind, sent.SendID, sent.Origin, sent.OriginType = "external", id, s.location(), scxmlProcessor
	sent.InvokeID = ""
	session, invoked := strings.CutPrefix(target, "#_")
	switch {
	case target == "#_internal":
		return enqueue.Raise(event, &message{Kind: "internal", SendID: id, Data: sent.Data, XML: sent.XML})
	case target == "" || target == s.location():
		return enqueue.SendAfter(id, event, delay, sent)
	case !invoked:
		return &contentError{element: e, sendID: id, err: fmt.Errorf("the target %q is not supported", target)}
	}
	to := s.host.find(session)
	if to == nil {
		return enqueue.Raise("error.communication", &message{Kind: "platform", SendID: id})
	}
	if session == "parent" {
		sent.InvokeID = s.host.invokeID
	}
	if delay > 0 {
		s.host.sendLater(to, id, event, delay, sent)
		return nil
	}
	return enqueue.SendTo(to.name, event, sent)
}

func parseDelay(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return time.ParseDuration(text)
}

// stringOf returns the value of an attribute, such as event. If the element has the attribute eventexpr, stringOf
// evaluates that expression instead.
func (s *sessionData) stringOf(e *element, name string) (string, error) {
	if expr, ok := e.attrs[name+"expr"]; ok {
		value, err := s.evaluate(expr)
		if err != nil {
			return "", err
		}
		return value.String(), nil
	}
	return e.attrs[name], nil
}

// payload evaluates the <content> of an element, or else its namelist and <param> elements.
func (s *sessionData) payload(e *element) (*message, error) {
	if content := e.one("content"); content != nil {
		value, err := s.value(content)
		if err != nil {
			return nil, err
		}
		return s.messageOf(value)
	}
	return s.parameters(e)
}

// parameters evaluates the namelist and the <param> elements of an element.
func (s *sessionData) parameters(e *element) (*message, error) {
	fields := s.js.NewObject()
	for _, name := range strings.Fields(e.attrs["namelist"]) {
		value, err := s.evaluate(name)
		if err == nil {
			err = fields.Set(name, value)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, param := range e.all("param") {
		expr, ok := param.attrs["expr"]
		if !ok {
			expr = param.attrs["location"]
		}
		value, err := s.evaluate(expr)
		if err == nil {
			err = fields.Set(param.attrs["name"], value)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(fields.Keys()) == 0 {
		return &message{}, nil
	}
	return s.messageOf(fields)
}

// doneData stores the data of a final state for its Output.
func (s *sessionData) doneData(e *element) error {
	s.output = nil
	if e == nil {
		return nil
	}
	told, err := s.payload(e)
	if err == nil && told.Data != nil {
		s.output = told.Data
	}
	return err
}

// message is the payload of an event, with the fields of _event.
type message struct {
	Kind       string          `json:"kind,omitempty"`
	SendID     string          `json:"sendid,omitempty"`
	Origin     string          `json:"origin,omitempty"`
	OriginType string          `json:"origintype,omitempty"`
	InvokeID   string          `json:"invokeid,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	// XML is the source text of an XML element that the event carries as its data.
	XML string `json:"xml,omitempty"`
}

func errorMessage(err error) *message {
	m := &message{Kind: "platform"}
	var where *contentError
	if errors.As(err, &where) {
		m.SendID = where.sendID
		m.Data, _ = json.Marshal(map[string]any{ // Strings and numbers always encode.
			"tagname": where.element.name, "line": where.element.line, "column": where.element.column, "reason": err.Error(),
		})
	}
	return m
}
