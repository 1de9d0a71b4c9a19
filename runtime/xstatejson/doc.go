// Package xstatejson reads machine configs of XState v5 (https://stately.ai/docs/machines) from
// JSON and writes charts as such, so that what speaks XState (editors, front ends, simulators) can
// show and make charts of this runtime.
//
//	def, err := xstatejson.Read(config, implementations)
//	chart, err := statechart.Compile(def) // or xstatejson.Foreign(def), as XState would run it
//	config, err := xstatejson.Write(chart)
//
// XState knows no [statechart.Settled]: a config for a machine of this runtime carries the tag
// "settled" on the states that wait, and is compiled by statechart.Compile with all its checks.
// Any other is compiled by [Foreign], where every state may wait, and is hosted by nobody.
//
// # What is read
//
// Of a state: id, type (atomic, compound, parallel, final, history), initial (a key, or target and
// actions), states, on, always, after (milliseconds or named delays), invoke (id, src, input,
// onDone, onError), onDone, entry, exit, history (shallow, deep, a boolean), target (of history),
// tags, output (literal JSON), description; of the machine also version (a whole number, as a
// string or not) and context (literal JSON). At the root, always, invoke, onDone and tags cannot
// stand: put them into a state around the others. meta is skipped but for meta.settle.
//
// Of a transition: target (a sibling, ".child", "#id", "#id.child", or several in an array), guard,
// actions, reenter, description, meta. It may be a target alone, and stand in an array. One without
// target and actions forbids its event, as do "" and null.
//
// Implementations are named: an action or a guard is "name" or {"type": "name", "params": ...}, a
// service is its src. XState's own actions and guards are functions, which JSON has not; they are
// read as objects of the properties that these functions have:
//
//	{"type": "xstate.raise", "event": {"type": "E", ...}, "delay": 1000, "id": "x"}
//	{"type": "xstate.cancel", "sendId": "x"}
//	{"type": "xstate.and", "guards": [...]}   also xstate.or, and xstate.not with one guard
//	{"type": "xstate.stateIn", "stateValue": "#id"}   or a path, or a state value
//
// The operators may do without "xstate." if they have guards. delay may name a delay. A program
// that hands such a config to XState puts raise(...), and(...) and so on in their places first.
//
// Any other key is a problem, and so is one that stands twice.
//
// # Meaning
//
// A config means what it means in XState. Keys of objects are in the order in which JavaScript
// enumerates them: integers first, ascending, then the others as they stand; that is document
// order. Transitions on events are ordered as XState tries them: the event's own type first, then
// prefixes, the longest first, then "*". The events that on and xstate.raise name are declared with
// their JSON (json.RawMessage) as payload, unless Implementations.Payloads says otherwise. XState's
// own events are those of the chart: xstate.done.state.ID, xstate.done.actor.ID and
// xstate.error.actor.ID are done.state.PATH, done.invoke.ID and error.invoke.ID.
//
// What XState 5 does otherwise than SCXML's algorithm is not imitated. This package's tests run
// random machines on both, and list these differences.
//
// # What is written
//
// What Read reads, in one form. What XState has no key for stands under meta.settle: of a state,
// the timeouts and retries of its services (invoke) and the constant delays that have names
// (after); of the machine, the event types that nothing else names (events) and those that never
// come from outside (internal). All durations are in milliseconds. Computed delays and deadlines,
// and actions that compute what they raise or send, are written by their names. Outputs, contexts
// and the types of payloads are Go code and are left out.
package xstatejson
