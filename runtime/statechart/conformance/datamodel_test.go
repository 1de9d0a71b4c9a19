package conformance_test

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/dop251/goja"

	"github.com/settle-run/settle/runtime/statechart"
)

// env is the context of a chart: a reference to the data of its session. A data model cannot be copied, so steps share
// it. A snapshot stores only the name of the session.
type env struct{ *sessionData }

// Clone returns the env itself: see env.
func (e env) Clone() env { return e }

// sessionData is the data model of a session, and further state of the SCXML processor.
type sessionData struct {
	host     *host
	document *document
	js       *goja.Runtime
	// active holds the IDs of the active states, for In. `entered` holds the elements of all states ever entered.
	active  map[string]bool
	entered map[*element]bool
	// event is the value of _event. `bound` is the chart's event from which bind made this value.
	event goja.Value
	bound *statechart.Event
	// output is the data of the last entered final state.
	output json.RawMessage
	// passed holds values from the invoking session, by data ID.
	passed map[string]json.RawMessage
	ids    int
}

func newData(h *host, d *document, passed map[string]json.RawMessage) (*sessionData, error) {
	s := &sessionData{
		host: h, document: d, js: goja.New(), passed: passed,
		active: map[string]bool{}, entered: map[*element]bool{}, event: goja.Undefined(),
	}
	s.js.SetFieldNameMapper(goja.UncapFieldNameMapper())
	global := s.js.GlobalObject()
	processor := map[string]string{"location": s.location()}
	processors, err := s.fromJSON(map[string]any{scxmlProcessor: processor, "scxml": processor})
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		s.js.Set("In", func(id string) bool { return s.active[id] }),
		global.DefineDataProperty("_sessionid", s.js.ToValue(h.name), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_TRUE),
		global.DefineDataProperty("_name", s.js.ToValue(d.root.attrs["name"]), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_TRUE),
		global.DefineDataProperty("_ioprocessors", processors, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_TRUE),
		global.DefineAccessorProperty("_event", s.js.ToValue(func(goja.FunctionCall) goja.Value { return s.event }), nil, goja.FLAG_FALSE, goja.FLAG_TRUE),
	)
}

// location is the address of the session for <send>.
func (s *sessionData) location() string { return "#_scxml_" + s.host.name }

// bind sets _event to an event. Binding the same event again keeps the same object.
func (s *sessionData) bind(event statechart.Event) {
	if event.Type == "" && event.Payload == nil || s.bound != nil && sameEvent(*s.bound, event) {
		return
	}
	s.bound = &event
	name, told := event.Type, &message{Kind: "platform"}
	switch payload := event.Payload.(type) {
	case *message:
		told = payload
	case statechart.StepError:
		told = errorMessage(payload.Err)
	case json.RawMessage:
		if strings.HasPrefix(name, doneState) {
			told.Data = payload
		} else if err := json.Unmarshal(payload, told); err != nil {
			panic(err)
		}
	}
	if path, ok := strings.CutPrefix(name, doneState); ok {
		name = doneState + s.document.ids[path]
	}
	shown := s.js.NewObject()
	for field, value := range map[string]string{"sendid": told.SendID, "origin": told.Origin, "origintype": told.OriginType, "invokeid": told.InvokeID} {
		if value == "" {
			s.must(shown.Set(field, goja.Undefined()))
		} else {
			s.must(shown.Set(field, value))
		}
	}
	s.must(shown.Set("name", name))
	s.must(shown.Set("type", told.Kind))
	s.must(shown.Set("data", s.dataOf(told)))
	s.event = shown
}

func (s *sessionData) must(err error) {
	if err != nil {
		panic(err)
	}
}

func sameEvent(a, b statechart.Event) bool {
	if a.Type != b.Type {
		return false
	}
	switch p := a.Payload.(type) {
	case *message:
		return p == b.Payload
	case json.RawMessage:
		q, ok := b.Payload.(json.RawMessage)
		return ok && (len(p) == 0 && len(q) == 0 || len(p) > 0 && len(q) > 0 && &p[0] == &q[0])
	case statechart.StepError:
		q, ok := b.Payload.(statechart.StepError)
		return ok && errors.Is(p.Err, q.Err)
	default:
		return a.Payload == nil && b.Payload == nil
	}
}

// dataOf returns the data of a message, or undefined.
func (s *sessionData) dataOf(m *message) goja.Value {
	if m.XML != "" {
		root, err := parseXML(m.XML)
		s.must(err)
		return s.js.ToValue(&domNode{root})
	}
	if len(m.Data) == 0 || string(m.Data) == "null" {
		return goja.Undefined()
	}
	value, err := s.fromJSON(m.Data)
	s.must(err)
	return value
}

// messageOf returns a message with a copy of the value as its data.
func (s *sessionData) messageOf(value goja.Value) (*message, error) {
	if node, ok := value.Export().(*domNode); ok {
		return &message{XML: node.element.outer}, nil
	}
	stringify, _ := goja.AssertFunction(s.js.Get("JSON").ToObject(s.js).Get("stringify"))
	text, err := stringify(goja.Undefined(), value)
	if err != nil || goja.IsUndefined(text) {
		return &message{}, err
	}
	return &message{Data: json.RawMessage(text.String())}, nil
}

func (s *sessionData) fromJSON(value any) (goja.Value, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	parse, _ := goja.AssertFunction(s.js.Get("JSON").ToObject(s.js).Get("parse"))
	return parse(goja.Undefined(), s.js.ToValue(string(text)))
}

// evaluate returns the value of an expression. An empty expression is undefined.
func (s *sessionData) evaluate(expr string) (goja.Value, error) {
	expr = strings.TrimRight(expr, "; \t\n")
	if expr == "" {
		return goja.Undefined(), nil
	}
	return s.js.RunString("(" + expr + "\n)")
}

func (s *sessionData) condition(expr string) (bool, error) {
	value, err := s.evaluate(expr)
	return err == nil && value.ToBoolean(), err
}

// declare declares a variable with the value undefined, unless the variable exists.
func (s *sessionData) declare(name string) {
	if s.js.GlobalObject().Get(name) == nil {
		s.must(s.js.Set(name, goja.Undefined()))
	}
}

// assign sets a location to a value. Strict mode rejects undeclared and constant locations.
func (s *sessionData) assign(location string, value goja.Value) error {
	set, err := s.js.RunString("(function (value) { 'use strict'; " + location + " = value; })")
	if err != nil {
		return err
	}
	call, _ := goja.AssertFunction(set)
	_, err = call(goja.Undefined(), value)
	return err
}

// script runs the text or the file of a <script>.
func (s *sessionData) script(e *element) error {
	text := e.text
	if file, ok := e.attrs["src"]; ok {
		var err error
		if text, err = readFile(s.document.dir, file); err != nil {
			return err
		}
	}
	_, err := s.js.RunString(text)
	return err
}

// initialise sets the initial value of a <data> element.
func (s *sessionData) initialise(e *element) error {
	id := e.attrs["id"]
	if passed, ok := s.passed[id]; ok {
		value, err := s.fromJSON(passed)
		s.must(err)
		return at(e, s.assign(id, value))
	}
	value, err := s.value(e)
	if err != nil {
		return at(e, err)
	}
	return at(e, s.assign(id, value))
}

// value returns the value of a <data>, <assign> or <content> element. It evaluates the attribute expr, if set.
// Otherwise it reads the attribute src or the content: JSON, an XML element, or text with normalised white space.
func (s *sessionData) value(e *element) (goja.Value, error) {
	if expr, ok := e.attrs["expr"]; ok {
		return s.evaluate(expr)
	}
	text := e.source
	if file, ok := e.attrs["src"]; ok {
		var err error
		if text, err = readFile(s.document.dir, file); err != nil {
			return nil, err
		}
	} else if len(e.children) == 0 {
		text = e.text
	}
	if strings.TrimSpace(text) == "" {
		return goja.Undefined(), nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		root, err := parseXML(text)
		if err != nil {
			return nil, err
		}
		return s.js.ToValue(&domNode{root}), nil
	}
	if json.Valid([]byte(text)) {
		return s.fromJSON(json.RawMessage(text))
	}
	return s.js.ToValue(strings.Join(strings.Fields(text), " ")), nil
}

func (e env) MarshalJSON() ([]byte, error) { return json.Marshal(e.host.name) }

// UnmarshalJSON looks up the session by its name.
func (e *env) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	*e = restoredEnv(name)
	return nil
}

// restoredEnv returns the env of a session. It panics if the session does not exist.
func restoredEnv(session string) env {
	data, _ := sessions.Load(session)
	return env{data.(*sessionData)}
}
