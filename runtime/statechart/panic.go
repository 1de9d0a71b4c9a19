package statechart

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// PanicError is the error of code that has panicked: a chart's, a payload's, a service's.
type PanicError struct {
	// Value is what the code has panicked with. It may hold what an event carries, and is no part of Error.
	Value any
	// Stack names the functions that were running, innermost first, each with its file and line, and without its arguments. It is
	// no part of Error, which is the same for the same input.
	Stack []string
}

// Panicked returns the error of a panic, given what recover has returned. It is for the deferred function that recovers.
func Panicked(value any) *PanicError { return &PanicError{Value: value, Stack: panicStack()} }

// Error names the type of the value. The Go runtime's own errors are there as they stand: they tell of types, indices and lengths.
func (e *PanicError) Error() string {
	switch value := e.Value.(type) {
	case ownPanic:
		return "panic: " + string(value)
	case runtime.Error:
		if isOfGoRuntime(reflect.TypeOf(value)) {
			return "panic: " + value.Error()
		}
	}
	return fmt.Sprintf("panic: a value of the type %T", e.Value)
}

// ownPanic is what this package panics with. It holds nothing of an event.
type ownPanic string

// isOfGoRuntime reports whether the Go runtime declares a type of errors: other types may have its method too.
func isOfGoRuntime(typ reflect.Type) bool {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ.PkgPath() == "runtime" || strings.HasPrefix(typ.PkgPath(), "internal/runtime/")
}

// panicFramesMax is how many functions a stack names.
const panicFramesMax = 32

// panicStack returns the stack of the panic that is being recovered from.
func panicStack() []string {
	counters := make([]uintptr, 2*panicFramesMax) // What recovers is among them.
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	var stack []string
	for panicking, more := false, true; more && len(stack) < panicFramesMax; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if panicking {
			stack = append(stack, fmt.Sprintf("%s %s:%d", frame.Function, frame.File, frame.Line))
		}
		panicking = panicking || frame.Function == "runtime.gopanic" // What is above it recovers.
	}
	return stack
}
