// Package statechart compiles and steps statecharts: hierarchical, parallel, with history,
// final states, guards, eventless transitions, timers, invoked services, child instances and
// deferred events.
//
// A chart is defined as data ([Definition]), compiled once ([Compile], [Must]) and stepped
// as a pure function:
//
//	step, err := chart.Step(snapshot, event)
//
// The step carries the next snapshot and the effects that the outside must perform, in
// order. Nothing is performed here: no I/O, no clock, no goroutine. Time is Event.At. The
// same snapshot and event give the same step, IDs included, so that a repeated step repeats
// nothing.
//
// The algorithm is that of SCXML, appendix D (https://www.w3.org/TR/scxml/#AlgorithmforSCXMLInterpretation),
// function for function and by its names; surface and defaults are those of XState v5:
// transitions are internal unless Reenter, targets read `sibling`, `.child`, `#id`, and a
// <parallel> may be the domain of a transition.
//
// The tutorial docs/charts.md of this module builds a chart step by step. The reference in
// docs/charts explains each feature with an example of this package.
//
// # Settled
//
// A chart that must wait marks the states it may wait in with the tag [Settled]. A
// configuration is settled when every active atomic state has the tag or is final, and no
// service runs: only the outside world can move it. The runtime stores an instance there,
// stops, and takes the next event only once it is settled again. Services run only while it is
// not; a settled state may wait for events, timers and child instances, and may [State.Defer]
// events for later.
package statechart
