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
// tags, output (literal JSON), description, meta (any JSON); of the machine also version (a whole
// number, as a string or not) and context (literal JSON). onDone cannot stand at the root: XState
// never takes it, for a machine whose root is done has ended.
//
// Of a transition: target (a sibling, ".child", "#id", "#id.child", or several in an array), guard,
// actions, reenter, description, meta (which is skipped). It may be a target alone, and stand in an
// array. One without target and actions forbids its event, as do "" and null.
//
// Implementations are named: an action or a guard is "name" or {"type": "name", "params": ...}, a
// service is its src. XState's own actions and guards are functions, which JSON has not; they are
// read as objects of the properties that these functions have:
//
//	{"type": "xstate.raise", "event": {"type": "E", ...}, "delay": 1000, "id": "x"}
//	{"type": "xstate.cancel", "sendId": "x"}
//	{"type": "xstate.emit", "event": {"type": "E", ...}}
//	{"type": "xstate.log", "value": "text"}
//	{"type": "xstate.spawnChild", "id": "x", "src": "machine", "input": ...}
//	{"type": "xstate.stopChild", "actorRef": "x"}
//	{"type": "xstate.sendTo", "to": "x", "event": {"type": "E", ...}}
//	{"type": "xstate.and", "guards": [...]}   also xstate.or, and xstate.not with one guard
//	{"type": "xstate.stateIn", "stateValue": "#id"}   or a path, or a state value
//
// The operators may do without "xstate." if they have guards. delay may name a delay. A program
// that hands such a config to XState puts raise(...), and(...) and so on in their places first.
//
// What is emitted, logged or sent is literal: XState's functions in these places are Go code here,
// under a name. src and to are a machine's and a child's ID.
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
// own events are those of the chart: xstate.done.state.ID is done.state.PATH; xstate.done.actor.ID and
// xstate.error.actor.ID are done.invoke.ID and error.invoke.ID, or done.child.ID and error.child.ID
// if the actor is a child instance.
//
// What XState 5 does otherwise than SCXML's algorithm is not imitated. This package's tests run
// random machines on both, and list these differences.
//
// # What is written
//
// What Read reads, in one form. What XState has no key for stands under meta.settle, beside what else
// meta has: of a state,
//
//	invoke    for each entry of invoke, the timeout and retry of a service, or {"child": true}
//	after     the constant delays that have names
//	defer     the descriptors of the events that wait in the state
//	meta      the state's own meta, if it is no object or has a key settle itself
//
// and of the machine also
//
//	events    the event types that nothing else names
//	internal  those that never come from outside
//	children  the IDs of children that only code spawns and whose ends are named
//
// All durations are in milliseconds. Children stand in invoke after the services, src being their
// machine's ID. Contexts, outputs and inputs of children are written where Read has read them; made
// by Go code they are left out, as are the types of payloads. Computed delays and deadlines, and
// actions that compute what they raise, send, emit or log, are written by their names.
package xstatejson
