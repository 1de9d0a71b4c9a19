// Package xstatejson reads machine configs of XState v5 (https://stately.ai/docs/machines) from JSON and writes charts
// as such configs. Editors, front ends and simulators for XState can then display and create charts of this runtime.
//
//	def, err := xstatejson.Read(config, implementations)
//	chart, err := statechart.Compile(def) // or xstatejson.Foreign(def), as XState would run it
//	config, err := xstatejson.Write(chart)
//
// XState has no [statechart.Settled]. In a config for this runtime, waiting states carry the tag "settled", and
// statechart.Compile compiles the config with all checks. Compile any other config with [Foreign], where every state
// may wait. Hosts refuse such a chart.
//
// # What is read
//
// Read reads these keys of a state: id, type (atomic, compound, parallel, final, history), initial (a key, or target
// and actions), states, on, always, and after (milliseconds or named delays). It also reads invoke (id, src, input,
// onDone, onError), onDone, entry, exit, history (shallow, deep, a boolean), target (of history), tags, output (literal
// JSON), description, meta (any JSON). A state with an id may have a route. For the machine, Read also reads version (a
// whole number, as a string or not) and context (literal JSON). It ignores keys that have no meaning at run time: types,
// schemas, options, and leftovers of XState 4 such as tsTypes. An empty array under "on", as in XState's exports of
// SCXML, means no transitions.
//
// A chart has at least one state, so a machine without states becomes a chart with the state "atomic". The names of
// states and charts are parts of paths and keys. In the key of a state, each '.', '#', '/' and space becomes '_':
// "in progress" is the state in_progress. In the ID of a machine, characters other than ASCII letters, digits, '-' and
// '_' become '-', or are dropped at either end. In targets, a machine without id has XState's default ID "(machine)".
// The ID of its chart is machine.
//
// For a transition, Read reads target (a sibling, ".child", "#id", "#id.child", or several in an array), guard,
// actions, reenter, description, meta (ignored). A transition may be just a target, and may be in an array. A
// transition without target and actions forbids its event, as do "" and null. An asterisk is a wildcard only alone or
// after the last dot, as in XState. Read drops transitions on other descriptors with asterisks, because no event
// matches them.
//
// A route is a transition of the root on {"type": "xstate.route", "to": "#id"}. onSnapshot of an invocation is a
// transition on xstate.snapshot.ID. Services send no snapshots, so this event only comes from outside.
//
// Implementations are named. An action or a guard is "name" or {"type": "name", "params": ...}. The key src names a
// service. XState's own actions and guards are functions, which JSON cannot express. Read expects objects with the
// properties of these functions instead:
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
// The prefix "xstate." is optional in xstate.and, xstate.or and xstate.not, if the key "guards" is present. The value
// of "delay" may be the name of a delay. A program that passes such a config to XState must first replace these objects
// with calls of raise(...), and(...) and so on.
//
// Emitted, logged and sent values are literal. Where XState accepts a function, use a named Go implementation. The
// value of "src" is the ID of a machine, and the value of "to" is the ID of a child.
//
// # Unread parts
//
// Read reports unknown and duplicate keys as problems, because a misspelt key would otherwise be lost. These parts of
// XState have messages of their own:
//
//	onDone of the root            is not allowed at the root, because XState never takes it
//	"type": "final" of the root   expected atomic, compound or parallel at the root
//	"version": "1.0.4"            expected a whole number, such as "1"
//	functions                     expected an implemented action (guard, service), or the keys of xstate.raise and so on
//	syncSnapshot                  expected false: snapshots of children are not supported
//	the end of unknown actors     expected the ID of a state or of an invocation after the prefix
//	keys of XState 4              ...is not a key of a transition: expected ...; XState v5 says guard (for cond)
//	keys with equal names         expected a key whose ID in the chart differs: rename one of them
//
// statechart.Compile and Foreign refuse more: event types with spaces, and targets that cannot be active together.
//
// # Meaning
//
// A config has the same meaning as in XState. Document order is the order in which JavaScript enumerates keys: integers
// first, ascending, then the others as written. Transitions on events are ordered as XState tries them: the event's own
// type first, then prefixes from long to short, then "*". Read declares the event types that "on" and "xstate.raise"
// name, with the event's JSON (json.RawMessage) as payload. Implementations.Payloads overrides these declarations.
//
// XState's own events map to events of the chart. xstate.done.state.ID becomes done.state.PATH. xstate.done.actor.ID
// and xstate.error.actor.ID become done.invoke.ID and error.invoke.ID, or done.child.ID and error.child.ID if the actor
// is a child instance.
//
// XState 5 deviates from SCXML's algorithm in some cases, and this package follows SCXML there. The tests run random
// machines on both engines and list the differences.
//
// # What is written
//
// Write produces the config that Read reads, in one canonical form. Features without a key in XState are under
// meta.settle, next to the other keys of meta. For a state:
//
//	invoke    for each entry of invoke, the timeout and retry of a service, or {"child": true}
//	after     the constant delays with names
//	defer     the descriptors of deferred events
//	meta      the state's own meta, if it is not an object or has a key settle itself
//
// For the machine also:
//
//	events    the event types that no other key names
//	internal  the event types that never come from outside
//	children  the IDs of children that only Go code spawns and whose done or error events have transitions
//
// All durations are in milliseconds. Children follow the services in "invoke", with the machine's ID as "src". Write
// includes the contexts, outputs and child inputs that Read has read. It omits values that Go code computes, and
// payload types. It writes computed delays and deadlines by name. It also writes an action by name if the action
// computes a raised, sent, emitted or logged value.
//
// # Snapshots
//
// WriteSnapshot and ReadSnapshot convert snapshots of instances to persisted snapshots of XState 5 and 6, and back.
package xstatejson
