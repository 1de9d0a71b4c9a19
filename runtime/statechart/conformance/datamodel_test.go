package conformance_test

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/dop251/goja"

	"github.com/settle-run/settle/runtime/statechart"
)

// env is the context of a chart: a reference to the data of its session. A data model cannot be
// copied, so steps share it; and what is stored of it is its session's name.
type env struct{ *sessionData }

// Clone returns the env itself: see env.
func (e env) Clone() env { return e }

// sessionData is the data model of a session, and what the SCXML processor knows beside it.
type sessionData struct {
	host     *host
	document *document
	js       *goja.Runtime
	// active are the IDs of the active states, for In; entered are the states ever entered.
	active  map[string]bool
	entered map[*element]bool
	// event is what _event shows, bound what it shows it of.
	event goja.Value
	bound *statechart.Event
	// output is what the final state entered last tells.
	output json.RawMessage
	// passed are the values that the invoking session passes, by the data they are for.
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

// bind makes _event show the event, the same object for the same event.
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

// dataOf returns the data of a message, undefined if it has none.
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

// messageOf returns a message with the value as its data, copied.
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

// evaluate returns the value of an expression, undefined for an empty one.
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

// declare makes a variable, undefined unless it is there.
func (s *sessionData) declare(name string) {
	if s.js.GlobalObject().Get(name) == nil {
		s.must(s.js.Set(name, goja.Undefined()))
	}
}

// assign sets a location to a value. Strict mode refuses what is not declared or cannot change.
func (s *sessionData) assign(location string, value goja.Value) error {
	set, err := s.js.RunString("(function (value) { 'use strict'; " + location + " = value; })")
	if err != nil {
		return err
	}
	call, _ := goja.AssertFunction(set)
	_, err = call(goja.Undefined(), value)
	return err
}

// script runs the text of a <script>, or the file that it names.
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

// initialise gives data its first value.
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

// value returns what expr, src or the content of <data>, <assign> or <content> stand for: JSON,
// an element, or text with its white space normalised.
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

// UnmarshalJSON finds the session by its name again.
func (e *env) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	*e = restoredEnv(name)
	return nil
}

// restoredEnv returns the env of a session, which it panics without.
func restoredEnv(session string) env {
	data, _ := sessions.Load(session)
	return env{data.(*sessionData)}
}
