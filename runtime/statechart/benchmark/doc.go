// Package benchmark compares the engine of package statechart with other engines, on the same work and in the same run.
// The other engines are github.com/qmuntal/stateless, github.com/looplab/fsm, github.com/felixgeelhaar/statekit, and
// XState in Node.
//
//	make bench
//
// prints the results as one table. The package is a separate module, so that importers of Settle do not depend on the
// other engines.
//
// The engine statelesshost is stateless hosted by runtime/statelesshost. Compare its row with the row of stateless to
// see the cost of the adapter.
//
// A case omits engines that cannot express it: looplab/fsm has neither hierarchy nor guards, and looplab/fsm and
// stateless have no parallel states. Comments at the cases explain where an engine needs a different structure for the
// same work. TestEveryEngineDoesTheSameWork verifies that all engines do the same work.
package benchmark
