package xstatejson

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// Implementations holds the implementations of the names in a config, like XState's setup and provide. Each
// implementation is a factory, which Read calls once for every use of the name.
type Implementations[C any] struct {
	// Actions are keyed by "type". The argument is the JSON of "params", or nil. Read sets the name and params of the
	// returned action.
	Actions map[string]func(params json.RawMessage) (statechart.Action[C], error)
	// Guards are keyed by "type", like actions.
	Guards map[string]func(params json.RawMessage) (statechart.Guard[C], error)
	// Services are keyed by "src". The argument is the JSON of "input", or nil.
	Services map[string]func(input json.RawMessage) (statechart.Service[C], error)
	// Delays are keyed by name, for "after" and for the delay of "xstate.raise".
	Delays map[string]func(C, statechart.Event) time.Duration
	// Payloads overrides and extends the event types that Read declares. Use it for events that only wildcards match,
	// or whose actions need a payload type other than the event's JSON.
	Payloads statechart.Payloads
	// Context returns the context of a new instance. Nil means the config's decoded "context", or else the zero value.
	Context func(statechart.Start) C
	// Otherwise implements names that the maps do not contain.
	Otherwise Otherwise[C]
}

// Otherwise implements names that cannot be listed in advance. If a function is nil, a name that is in no map is a
// problem. An error that a function returns is a problem too.
type Otherwise[C any] struct {
	Action  func(name string, params json.RawMessage) (statechart.Action[C], error)
	Guard   func(name string, params json.RawMessage) (statechart.Guard[C], error)
	Service func(name string, input json.RawMessage) (statechart.Service[C], error)
	Delay   func(name string) (func(C, statechart.Event) time.Duration, error)
}

const reading = "reading an XState machine"

// Read reads a machine config of XState v5 in JSON. The error is an *Error with all problems found. Read does not check
// the whole chart. statechart.Compile and Foreign do.
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

// Foreign compiles a definition from Read as XState would run it: every state may wait, even without the tag settled.
// Hosts refuse such a chart. Use it for tests, simulations and previews.
func Foreign[C any](def statechart.Definition[C]) (*statechart.Chart[C], error) {
	def.Foreign = &foreign.Document{}
	return statechart.Compile(def)
}

type reader[C any] struct {
	impl     Implementations[C]
	problems []Problem
	// id is the machine's ID in XState. The ID of the chart is the key of root.
	id   string
	root *stateNode
	// ids maps XState IDs to states.
	ids map[string]*stateNode
	// actors maps XState IDs to services and children.
	actors map[string]actor
	// services and children are set if the config has any.
	services, children bool
	payloads           statechart.Payloads
}

// stateNode is a state of the document.
type stateNode struct {
	config *value
	// `at` is the JSON path. `path` is the path in the chart.
	at, path string
	key, id  string
	// name is the state's ID in the chart, made from the key.
	name     string
	parent   *stateNode
	children []*stateNode
	// typ is the XState type: atomic, compound, parallel, final or history.
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
	r.id = "(machine)"
	if id := config.get("id"); id != nil {
		r.id = r.text("id", id)
	}
	def := statechart.Definition[C]{ID: chartID(r.id), Version: 1, Payloads: r.payloads, Context: r.impl.Context}
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
	if err := readjson.Unmarshal(text, new(C)); err != nil {
		r.problem("context", "%v: the context type is %T", err, *new(C))
		return
	}
	def.Context = func(statechart.Start) C {
		var c C
		_ = json.Unmarshal(text, &c) // The text was parsed before, so decoding cannot fail.
		return c
	}
	def.ContextParams = text
}

// literal returns a function that always returns the value's JSON, and the JSON itself.
func literal[C any](v *value) (func(C, statechart.Event) any, json.RawMessage) {
	made := v.raw()
	return func(C, statechart.Event) any { return made }, made
}

// layOut collects the states and their IDs for the resolution of targets.
func (r *reader[C]) layOut(config *value, parent *stateNode, key, at string, depth int) *stateNode {
	n := &stateNode{config: config, parent: parent, key: key, name: stateName(key), at: at}
	n.id = r.idOf(n)
	if _, taken := r.ids[n.id]; taken {
		r.problem(join(at, "id"), "expected a unique ID, got %q", n.id)
	}
	r.ids[n.id] = n
	if parent != nil {
		n.path = below(parent.path, n.name)
	}
	if depth > statechart.NestingDepthMax {
		r.problem(at, "expected at most %d levels of nested states (statechart.NestingDepthMax)", statechart.NestingDepthMax)
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
			if child.key == "" {
				r.problem(path, "expected a key that is not empty")
				continue
			}
			laid := r.layOut(&child.value, n, child.key, path, depth+1)
			for _, sibling := range n.children {
				if sibling.name == laid.name {
					r.problem(path, "expected a key whose ID in the chart, %q, differs from the ID of %q: rename one of them", laid.name, sibling.key)
				}
			}
			n.children = append(n.children, laid)
		}
	}
	n.typ = r.typeOf(n)
	return n
}

// stateName converts the key of a state to the state's ID in the chart. The characters '.', '#', '/' and space separate
// the parts of paths, targets and instance names. Each of them, and each unprintable character, becomes '_'.
func stateName(key string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(".#/ ", c) || !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, key)
}

// chartID returns the ID of the chart for a machine's ID. Each run of characters that an ID must not contain becomes
// '-', or is dropped at either end. The default of XState, "(machine)", becomes "machine".
func chartID(id string) string {
	words := strings.FieldsFunc(id, func(c rune) bool { return c > unicode.MaxASCII || c != '-' && !plain(string(c)) || c == '$' })
	return cmp.Or(strings.Join(words, "-"), "machine")
}

// idOf returns the XState ID of a state: its own, or the machine's ID followed by the keys down to the state.
func (r *reader[C]) idOf(n *stateNode) string {
	if n.parent == nil {
		return r.id
	}
	if id := n.config.get("id"); id != nil && id.kind == text && id.text != "" {
		return id.text
	}
	id := n.key
	at := n.parent
	for ; at.parent != nil; at = at.parent {
		id = at.key + "." + id
	}
	return r.id + "." + id
}

func (r *reader[C]) typeOf(n *stateNode) string {
	if typ := n.config.get("type"); typ != nil {
		switch {
		case typ.kind == text && (typ.text == "compound" || typ.text == "parallel"):
		case typ.kind == text && (typ.text == "atomic" || typ.text == "final" || typ.text == "history"):
			if len(n.children) > 0 {
				r.problem(join(n.at, "type"), "expected compound or parallel, because the state has states, got %q", typ.text)
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

// text reads a non-empty string.
func (r *reader[C]) text(path string, v *value) string {
	if v.kind != text || v.text == "" {
		r.problem(path, "expected a non-empty string, got %s", v.raw())
	}
	return v.text
}

// each calls fn for a single value or for each value of an array.
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

// milliseconds parses a delay like JavaScript's Number. It reports false if the text is not a number.
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
