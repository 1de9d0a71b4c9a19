// Package foreign restricts statechart.CompileForeign to the packages in runtime/ that read documents of other
// interpreters. Code outside runtime/ cannot name its argument type, so no machine can skip the checks.
package foreign

// Document marks a definition that was read from a document of another interpreter.
type Document struct{}
