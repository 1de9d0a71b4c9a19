package statechart

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// PanicError is returned when code of a chart, payload or service panics.
type PanicError struct {
	// Value is the panic value, which may hold data of an event. Stack names the running functions, innermost first, with
	// file and line but without arguments. The method Error quotes neither.
	Value any
	Stack []string
}

// Panicked returns the error for a panic, given the result of recover.
func Panicked(value any) *PanicError { return &PanicError{Value: value, Stack: panicStack()} }

// Error names the type of the value. It quotes only errors of the Go runtime.
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

// ownPanic is the panic value of this package. It contains no event data.
type ownPanic string

// isOfGoRuntime reports whether an error type belongs to the Go runtime. The method RuntimeError is no proof, because
// other types may have it too.
func isOfGoRuntime(typ reflect.Type) bool {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ.PkgPath() == "runtime" || strings.HasPrefix(typ.PkgPath(), "internal/runtime/")
}

// panicFramesMax is the maximum number of functions in a stack.
const panicFramesMax = 32

// panicStack returns the stack of the panic being recovered.
func panicStack() []string {
	counters := make([]uintptr, 2*panicFramesMax) // Leaves room for the frames of the recovery.
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	var stack []string
	for panicking, more := false, true; more && len(stack) < panicFramesMax; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if panicking {
			stack = append(stack, fmt.Sprintf("%s %s:%d", frame.Function, frame.File, frame.Line))
		}
		panicking = panicking || frame.Function == "runtime.gopanic" // The frames before gopanic belong to the recovery.
	}
	return stack
}
