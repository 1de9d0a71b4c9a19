// Package statechart compiles and runs statecharts with hierarchy, parallel states, history, final states, guards,
// eventless transitions, timers, invoked services, child instances and deferred events.
//
// A chart is defined as data ([Definition]), compiled once ([Compile], [Must]) and stepped as a pure function:
//
//	step, err := chart.Step(snapshot, event)
//
// The step holds the next snapshot and the effects for the host to perform, in order. The package itself does no I/O,
// reads no clock and starts no goroutine. Event.At is the time. The same snapshot and event always give the same step,
// including IDs, so the host can safely repeat a step.
//
// The algorithm is the one in SCXML, appendix D (https://www.w3.org/TR/scxml/#AlgorithmforSCXMLInterpretation), with
// the same functions and names. The API and the defaults follow XState v5: transitions are internal unless Reenter is
// set, and a <parallel> may be the domain of a transition.
//
// The tutorial is docs/charts.md. The folder docs/charts explains each feature.
//
// # Settled
//
// A chart marks the states in which it may wait with the tag [Settled]. A configuration is settled if every active
// atomic state is final or has the tag, and no service runs. Then only an event or a timer can move the instance. The
// runtime delivers the next event only to a settled instance.
package statechart
