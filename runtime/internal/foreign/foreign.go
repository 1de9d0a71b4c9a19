// Package foreign keeps statechart.CompileForeign for those who read documents of other
// interpreters: nobody outside of runtime/ can name the type that it asks for, so that no machine
// does without the checks.
package foreign

// Document says that a definition was read from a document of another interpreter.
type Document struct{}
