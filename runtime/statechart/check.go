package statechart

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Finding is one error or one warning about a definition.
type Finding struct {
	State        string // the path of the state, or "" for the chart itself
	Problem, Fix string
}

// DefinitionError is returned by Compile. It holds all findings.
type DefinitionError struct {
	Chart    string
	Findings []Finding
}

func (e *DefinitionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "chart %q: %d finding", e.Chart, len(e.Findings))
	if len(e.Findings) != 1 {
		b.WriteByte('s')
	}
	b.WriteByte(':')
	for _, f := range e.Findings {
		if f.State == "" {
			fmt.Fprintf(&b, "\n  the chart %s: %s", f.Problem, f.Fix)
		} else {
			fmt.Fprintf(&b, "\n  state %q %s: %s", f.State, f.Problem, f.Fix)
		}
	}
	return b.String()
}

func (c *compiler) find(n *node, problem, fix string) {
	state := ""
	if n != nil {
		state = n.path
	}
	c.findings = append(c.findings, Finding{State: state, Problem: problem, Fix: fix})
}

// reservedPrefixes are the prefixes of event types that the chart and the runtime generate.
var reservedPrefixes = []string{ReservedPrefix, doneStatePrefix, doneInvokePrefix, errorInvokePrefix, doneChildPrefix, errorChildPrefix, ExecutionError}

// idCharacters are the characters of the IDs that become parts of keys.
const idCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// limitNameBytesMax limits Limit.Name.
const limitNameBytesMax = 80

func (c *compiler) checkHead(def erasedDefinition) {
	if def.id == "" || strings.Trim(def.id, idCharacters) != "" {
		c.find(nil, fmt.Sprintf("has the ID %q", def.id), "use ASCII letters, digits, '-' and '_'")
	}
	if def.version < 1 {
		c.find(nil, fmt.Sprintf("has the version %d", def.version), "count versions from 1")
	}
	if len(def.root.States) == 0 {
		c.find(nil, "has no states", "add States")
	}
	for _, typ := range sortedKeys(def.payloads) {
		own := func(prefix string) bool { return strings.HasPrefix(typ, prefix) }
		if typ == "" || strings.ContainsAny(typ, "* ") || slices.ContainsFunc(reservedPrefixes, own) {
			c.find(nil, fmt.Sprintf("declares the event type %q", typ), "use a name without '*' and spaces that does not begin with "+strings.Join(reservedPrefixes, ", "))
		}
	}
}

// checkShape checks a state without regard to other states.
func (c *compiler) checkShape(n *node) {
	def := n.def
	if n.depth > NestingDepthMax {
		c.find(n, fmt.Sprintf("is nested %d deep", n.depth), fmt.Sprintf("nest at most %d deep (NestingDepthMax)", NestingDepthMax))
	}
	if n.index == StatesMax {
		c.find(nil, fmt.Sprintf("has more than %d states", StatesMax), "split it into several charts (StatesMax)")
	}
	misplaced := func(r rune) bool { return r == '.' || r == '#' || r == '/' || r == ' ' || !unicode.IsPrint(r) }
	if n.index > 0 && (def.ID == "" || strings.ContainsFunc(def.ID, misplaced) || !utf8.ValidString(def.ID)) {
		c.find(n, fmt.Sprintf("has the ID %q", def.ID), "use a name without '.', '#', '/' and spaces")
	}
	if n.kind == parallel && def.Initial != "" {
		c.find(n, "is parallel and has an Initial", "remove Initial: all regions are entered")
	}
	if def.Initial != "" && n.kind != parallel && n.kind != compound {
		c.find(n, "has an Initial but no children", "remove it, or add States")
	}
	if def.Type < Plain || def.Type > DeepHistory {
		c.find(n, fmt.Sprintf("has the type %d", def.Type), "use one of the constants of Type")
	}
	region := func(child State[erased]) bool { return kindOf(&child) != history }
	if n.kind == parallel && !slices.ContainsFunc(def.States, region) {
		c.find(n, "is parallel without regions", "add States")
	}
	if len(def.DefaultEntry) > 0 && n.kind != compound && n.kind != history {
		c.find(n, "has DefaultEntry but no initial state", "move the actions to Entry")
	}
	leaf := n.kind == final || n.kind == history
	if leaf && len(def.States)+len(def.On)+len(def.Always)+len(def.After)+len(def.Invoke)+len(def.OnDone)+len(def.Children)+len(def.Defer) > 0 {
		c.find(n, "is final or history but has children, transitions, timers, services or deferred events", "remove them, or make it a plain state")
	}
	if def.Target != "" && n.kind != history {
		c.find(n, "has a Target but is not a history state", "put the target into a transition")
	}
	if n.kind == history && len(def.Entry)+len(def.Exit)+len(def.Tags)+len(def.Resolve) > 0 {
		c.find(n, "is history but has actions, tags or resolutions", "remove them: a history state is never active")
	}
	if def.Output != nil && n.kind != final {
		c.find(n, "has an Output but is not final", "move Output to a final state")
	}
}

// checkLimit checks the limit of an invocation. All services with the same limit must declare the same values.
func (c *compiler) checkLimit(n *node, invoke *Invoke[erased], id string) {
	limit := invoke.Limit
	if limit == (Limit{}) {
		if invoke.LimitKey != nil {
			c.find(n, fmt.Sprintf("invokes %q with a LimitKey but no Limit", id), "set Limit, or remove LimitKey")
		}
		return
	}
	if limit.Name == "" || len(limit.Name) > limitNameBytesMax || strings.Trim(limit.Name, idCharacters) != "" {
		c.find(n, fmt.Sprintf("invokes %q with a limit of the name %q", id, limit.Name), fmt.Sprintf("use 1 to %d ASCII letters, digits, '-' and '_'", limitNameBytesMax))
	}
	if limit.Rate < 0 || limit.Per < 0 || limit.Concurrency < 0 || limit.Concurrency > LimitConcurrencyMax || limit.Rate == 0 && (limit.Concurrency == 0 || limit.Per > 0) {
		c.find(n, fmt.Sprintf("invokes %q with the limit %s", id, figures(limit)), fmt.Sprintf("set a positive Rate, with or without Per, or a Concurrency of at most %d, or both", LimitConcurrencyMax))
	}
	if first, ok := c.limits[limit.Name]; ok && first != limit {
		c.find(n, fmt.Sprintf("invokes %q with the limit %s, but another service declares %s", id, figures(limit), figures(first)), "declare the limit once, and use it in both services")
		return
	}
	if c.limits == nil {
		c.limits = map[string]Limit{}
	}
	c.limits[limit.Name] = limit
}

func figures(limit Limit) string { return fmt.Sprintf("%+v", limit) }

func (c *compiler) checkAfter(n *node, i int, groups afterGroups) {
	after := &n.def.After[i]
	id := after.id()
	ways := 0
	for _, set := range []bool{after.Delay != 0, after.DelayFunc != nil, after.At != nil} {
		if set {
			ways++
		}
	}
	if ways == 0 && groups.sharesTimer(n.def.After, i) {
		return
	}
	if ways != 1 {
		c.find(n, fmt.Sprintf("after %s: sets %d of Delay, DelayFunc and At", id, ways), "set exactly one")
		return
	}
	if after.Delay < 0 {
		c.find(n, fmt.Sprintf("after %s: the delay is negative", id), "use a positive delay")
	}
	if after.Delay == 0 && after.ID == "" {
		c.find(n, "after: a computed delay has no ID, so its timer is ambiguous", "set ID")
		return
	}
	if groups.ambiguous[id] {
		c.find(n, fmt.Sprintf("after %s: two entries share the ID but not a constant delay, so their timer is ambiguous", id), "give each its own ID")
	}
}

// afterGroups describes the After entries of a state by ID.
type afterGroups struct {
	named     map[string]int  // the first entry that sets the ID
	ambiguous map[string]bool // two entries with the ID set delays, and these differ or are computed
}

func groupAfters(afters []After[erased]) afterGroups {
	groups := afterGroups{map[string]int{}, map[string]bool{}}
	first := map[string]int{} // the first entry with the ID that sets a delay
	for i := range afters {
		if _, known := groups.named[afters[i].ID]; !known {
			groups.named[afters[i].ID] = i
		}
		if groups.sharesTimer(afters, i) {
			continue
		}
		id := afters[i].id()
		if k, known := first[id]; !known {
			first[id] = i
		} else if afters[i].Delay != afters[k].Delay || afters[i].Delay == 0 {
			groups.ambiguous[id] = true
		}
	}
	return groups
}

// sharesTimer reports whether an After entry sets only the ID of an earlier entry, and so shares that entry's timer.
func (g *afterGroups) sharesTimer(afters []After[erased], i int) bool {
	after := &afters[i]
	return after.ID != "" && after.Delay == 0 && after.DelayFunc == nil && after.At == nil && g.named[after.ID] != i
}

// checkPayload checks that the actions and the guard of a transition accept the event's payload type. A nil type means
// no payload.
func (c *compiler) checkPayload(n *node, t transition, carries reflect.Type) {
	carried := "nothing"
	if carries != nil {
		carried = carries.String()
	}
	mismatch := func(what, name string, expects reflect.Type) {
		if expects != nil && expects != carries {
			c.find(n, fmt.Sprintf("%s: %s %s expects %v, but the event carries %s", t.place, what, name, expects, carried), "use the type of the payload, or Event")
		}
	}
	for _, action := range t.actions {
		mismatch("action", action.Name, action.payload)
	}
	var guard func(g Guard[erased])
	guard = func(g Guard[erased]) {
		mismatch("guard", g.Name, g.payload)
		for _, inner := range g.of {
			guard(inner)
		}
	}
	guard(t.guard)
}
