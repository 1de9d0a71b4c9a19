// Package foreign keeps statechart.CompileForeign for the tests below runtime/statechart: nobody
// else can name the type that it asks for, so that no machine does without the checks.
package foreign

// Document says that a definition was read from a document of another interpreter.
type Document struct{}
