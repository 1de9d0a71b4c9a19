package xstatejson

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// Implementations are what a config names, as XState's setup and provide take them. Each is a
// factory, called once for every place that names it.
type Implementations[C any] struct {
	// Actions are by "type"; params is the JSON of "params", nil if there is none. The name and
	// params of the action that is returned are set by Read.
	Actions map[string]func(params json.RawMessage) (statechart.Action[C], error)
	// Guards are by "type", as actions are.
	Guards map[string]func(params json.RawMessage) (statechart.Guard[C], error)
	// Services are by "src"; input is the JSON of "input", nil if there is none.
	Services map[string]func(input json.RawMessage) (statechart.Service[C], error)
	// Delays are by name, for "after" and for the delay of "xstate.raise".
	Delays map[string]func(C, statechart.Event) time.Duration
	// Payloads declares event types in place of what Read would declare, and beside it: those
	// that only wildcards take, or whose actions want another payload than the event's JSON.
	Payloads statechart.Payloads
	// Context makes the context of a new instance. Nil means the config's "context", decoded,
	// or else the zero value.
	Context func(statechart.Start) C
	// Otherwise makes what the maps do not name.
	Otherwise Otherwise[C]
}

// Otherwise makes implementations by name, for those who cannot list the names ahead. Where a
// function is nil, a name that no map has is a problem; so is an error that one returns.
type Otherwise[C any] struct {
	Action  func(name string, params json.RawMessage) (statechart.Action[C], error)
	Guard   func(name string, params json.RawMessage) (statechart.Guard[C], error)
	Service func(name string, input json.RawMessage) (statechart.Service[C], error)
	Delay   func(name string) (func(C, statechart.Event) time.Duration, error)
}

const reading = "reading an XState machine"

// Read reads a machine config of XState v5 in JSON. The error is an *Error with all problems that
// could be found at once. What the chart as a whole says is left to statechart.Compile or Foreign.
func Read[C any](data []byte, impl Implementations[C]) (statechart.Definition[C], error) {
	config, err := parse(data)
	if err != nil {
		return statechart.Definition[C]{}, &Error{What: reading, Problems: []Problem{{Text: err.Error()}}}
	}
	r := &reader[C]{
		impl: impl, ids: map[string]*stateNode{}, actors: map[string]actor{},
		payloads: statechart.Payloads{},
	}
	def := r.machine(&config)
	if len(r.problems) > 0 {
		return statechart.Definition[C]{}, &Error{What: reading, Problems: r.problems}
	}
	return def, nil
}

// Foreign compiles a definition that Read returned as XState would run it: every state may wait,
// tagged settled or not. No machine hosts such a chart; it is for tests, simulations and previews.
func Foreign[C any](def statechart.Definition[C]) (*statechart.Chart[C], error) {
	return statechart.CompileForeign(def, foreign.Document{})
}

type reader[C any] struct {
	impl     Implementations[C]
	problems []Problem
	root     *stateNode
	// ids are the states by their IDs in XState.
	ids map[string]*stateNode
	// actors are services and children by their IDs in XState.
	actors map[string]actor
	// services and children say that there are some.
	services, children bool
	payloads           statechart.Payloads
}

// stateNode is a state of the document.
type stateNode struct {
	config *value
	// at is the JSON path, path the one in the chart.
	at, path string
	key, id  string
	parent   *stateNode
	children []*stateNode
	// typ is XState's: atomic, compound, parallel, final or history.
	typ string
}

func (n *stateNode) child(key string) *stateNode {
	for _, child := range n.children {
		if child.key == key {
			return child
		}
	}
	return nil
}

func (r *reader[C]) problem(path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// machine reads the whole config.
func (r *reader[C]) machine(config *value) statechart.Definition[C] {
	if config.kind != object {
		r.problem("", "expected an object, got %v", config.kind)
		return statechart.Definition[C]{}
	}
	def := statechart.Definition[C]{ID: "machine", Version: 1, Payloads: r.payloads, Context: r.impl.Context}
	if id := config.get("id"); id != nil {
		def.ID = r.text("id", id)
	}
	r.root = r.layOut(config, nil, def.ID, "", 0)
	r.findActors(r.root)
	r.findSpawned(config)
	r.version(config.get("version"), &def)
	r.context(config.get("context"), &def)
	root := r.state(r.root)
	def.Parallel = root.Type == statechart.Parallel
	def.States, def.Initial, def.DefaultEntry = root.States, root.Initial, root.DefaultEntry
	def.Tags, def.Entry, def.Exit, def.On = root.Tags, root.Entry, root.Exit, root.On
	def.Always, def.After, def.Invoke, def.Children = root.Always, root.After, root.Invoke, root.Children
	def.Defer, def.Doc, def.Meta = root.Defer, root.Doc, root.Meta
	if output := config.get("output"); output != nil {
		def.Output, def.OutputParams = literal[C](output)
	}
	r.settleEvents(config)
	for typ, payload := range r.impl.Payloads {
		r.payloads[typ] = payload
	}
	return def
}

func (r *reader[C]) version(v *value, def *statechart.Definition[C]) {
	if v == nil {
		return
	}
	version, err := strconv.Atoi(v.text)
	if err != nil || v.kind != text && v.kind != number {
		r.problem("version", "expected a whole number, such as \"1\", got %s", v.raw())
		return
	}
	def.Version = version
}

func (r *reader[C]) context(v *value, def *statechart.Definition[C]) {
	if v == nil || def.Context != nil {
		return
	}
	text := v.raw()
	if err := statechart.ReadJSON(text, new(C)); err != nil {
		r.problem("context", "%v: it is to become a %T", err, *new(C))
		return
	}
	def.Context = func(statechart.Start) C {
		var c C
		_ = json.Unmarshal(text, &c) // it has been read before
		return c
	}
	def.ContextParams = text
}

// literal returns the function that makes what stands in the document, and that.
func literal[C any](v *value) (func(C, statechart.Event) any, json.RawMessage) {
	made := v.raw()
	return func(C, statechart.Event) any { return made }, made
}

// layOut finds the states and their IDs, so that targets can be resolved.
func (r *reader[C]) layOut(config *value, parent *stateNode, key, at string, depth int) *stateNode {
	n := &stateNode{config: config, parent: parent, key: key, at: at}
	n.id = r.idOf(n)
	if _, taken := r.ids[n.id]; taken {
		r.problem(join(at, "id"), "expected an ID that no other state has, got %q", n.id)
	}
	r.ids[n.id] = n
	if parent != nil {
		n.path = strings.TrimPrefix(parent.path+"."+key, ".")
	}
	if depth > statechart.NestingDepthMax {
		r.problem(at, "expected states that nest at most %d deep (statechart.NestingDepthMax)", statechart.NestingDepthMax)
		return n
	}
	states := config.get("states")
	if states != nil && states.kind != object {
		r.problem(join(at, "states"), "expected an object from key to state, got %v", states.kind)
		states = nil
	}
	if states != nil {
		for i := range states.members {
			child := &states.members[i]
			path := join(join(at, "states"), child.key)
			if child.kind != object {
				r.problem(path, "expected a state, which is an object, got %v", child.kind)
				continue
			}
			if !nameable(child.key) {
				r.problem(path, "expected a key without '.', '#', '/' and spaces, got %q", child.key)
				continue
			}
			n.children = append(n.children, r.layOut(&child.value, n, child.key, path, depth+1))
		}
	}
	n.typ = r.typeOf(n)
	return n
}

func nameable(key string) bool { return key != "" && !strings.ContainsAny(key, ".#/ \t\n") }

// idOf returns the ID that a state has in XState: its own, or the machine's and the keys down to
// it.
func (r *reader[C]) idOf(n *stateNode) string {
	if n.parent == nil {
		return n.key
	}
	if id := n.config.get("id"); id != nil && id.kind == text && id.text != "" {
		return id.text
	}
	id := n.key
	at := n.parent
	for ; at.parent != nil; at = at.parent {
		id = at.key + "." + id
	}
	return at.key + "." + id
}

func (r *reader[C]) typeOf(n *stateNode) string {
	if typ := n.config.get("type"); typ != nil {
		switch {
		case typ.kind == text && (typ.text == "compound" || typ.text == "parallel"):
		case typ.kind == text && (typ.text == "atomic" || typ.text == "final" || typ.text == "history"):
			if len(n.children) > 0 {
				r.problem(join(n.at, "type"), "expected compound or parallel, for the state has states, got %q", typ.text)
			}
		default:
			r.problem(join(n.at, "type"), "expected atomic, compound, parallel, final or history, got %s", typ.raw())
		}
		return typ.text
	}
	if len(n.children) > 0 {
		return "compound"
	}
	if h := n.config.get("history"); h != nil && (h.text != "" || h.truth) {
		return "history"
	}
	return "atomic"
}

// text reads a string that may not be empty.
func (r *reader[C]) text(path string, v *value) string {
	if v.kind != text || v.text == "" {
		r.problem(path, "expected a string that is not empty, got %s", v.raw())
	}
	return v.text
}

// each calls fn for a value that may stand alone or in an array.
func each(path string, v *value, fn func(path string, v *value)) {
	if v == nil {
		return
	}
	if v.kind != array {
		fn(path, v)
		return
	}
	for i := range v.items {
		fn(fmt.Sprintf("%s[%d]", path, i), &v.items[i])
	}
}

// milliseconds reads a delay as JavaScript's Number would: false if it is no number.
func milliseconds(key string) (time.Duration, bool) {
	if strings.Trim(key, "0123456789.eE+-") != "" {
		return 0, false
	}
	ms, err := strconv.ParseFloat(key, 64)
	if err != nil || math.IsInf(ms, 0) {
		return 0, false
	}
	ns := math.Round(ms * float64(time.Millisecond))
	if ns > math.MaxInt64/2 || ns < math.MinInt64/2 {
		return -1, true
	}
	return time.Duration(ns), true
}
