// Package benchmark measures the engine of package statechart beside other engines, on the same
// work and in the same run: github.com/qmuntal/stateless, github.com/looplab/fsm,
// github.com/felixgeelhaar/statekit, and XState in Node.
//
//	make bench
//
// prints one table of it. The package is a module of its own, so that nobody who imports Settle
// inherits what it is compared with.
//
// The engine statelesshost is stateless as runtime/statelesshost hosts it: beside the row of
// stateless it shows what the adapter costs.
//
// A case is left out for an engine that cannot express it: looplab/fsm has neither hierarchy nor
// guards, and neither it nor stateless has parallel states. Where an engine needs another shape
// for the same work, the comment beside its case says so. TestEveryEngineDoesTheSameWork holds
// each of them to it.
package benchmark
