// Package foreign marks charts of other interpreters, such as XState and SCXML. Only the packages in runtime/ can create
// the mark, so no machine can skip the checks of statechart.Compile.
package foreign

// Document is the mark of a definition that was read from a document of another interpreter. It is the value of
// statechart.Definition.Foreign. Such a document has no Settled tag.
//
// For a marked definition, Compile checks only the preconditions of the algorithm: any configuration may wait, services
// may run while events arrive, and states may be unreachable. Event types need no declaration. An undeclared event
// carries the payload it was raised with or, if SendAfter sent it, its JSON form. An ExecutionError without a matching
// transition is dropped.
type Document struct{}
