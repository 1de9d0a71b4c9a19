package statechart_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// pretended is an error that claims to come from the Go runtime.
type pretended struct{ error }

// RuntimeError implements runtime.Error.
func (pretended) RuntimeError() {}

// TestPanicErrorNamesTheType shows that the error quotes a panic of the Go runtime. For a program's own panic value,
// the error names only the type.
func TestPanicErrorNamesTheType(t *testing.T) {
	t.Parallel()
	var none []string
	var counts map[string]int
	var nowhere *trace
	for want, code := range map[string]func(){
		"panic: a value of the type string":                                       func() { panic("card 4711") },
		"panic: a value of the type *errors.errorString":                          func() { panic(errors.New("card 4711")) },
		"panic: a value of the type statechart_test.pretended":                    func() { panic(pretended{errors.New("card 4711")}) },
		"panic: a value of the type statechart_test.trace":                        func() { panic(trace{Log: []string{"card 4711"}}) },
		"panic: runtime error: index out of range [4] with length 0":              func() { _ = none[len("4711")] },
		"panic: assignment to entry in nil map":                                   func() { counts["card 4711"]++ },
		"panic: runtime error: invalid memory address or nil pointer dereference": func() { nowhere.N++ },
		"panic: interface conversion: interface {} is string, not int":            func() { _ = any("card 4711").(int) },
		"panic: panic called with nil argument":                                   func() { panic(nil) },
		"panic: hash of unhashable type: []string":                                func() { _ = map[any]int{}[none] },
		"panic: runtime error: slice bounds out of range [4:0]":                   func() { _ = none[len("4711"):] },
		"panic: runtime error: integer divide by zero":                            func() { _ = 4711 / len(none) },
		"panic: runtime error: makeslice: len out of range":                       func() { _ = make([]string, len(none)-1) },
	} {
		got := panicOf(code)
		if got.Error() != want || strings.Contains(got.Error(), "4711") {
			t.Errorf("got %q, want %q", got, want)
		}
		if !strings.Contains(strings.Join(got.Stack, "\n"), "TestPanicErrorNamesTheType.func") || strings.Contains(strings.Join(got.Stack, "\n"), "Panicked") {
			t.Errorf("%s: got the stack %q, want it to begin where the code has panicked", want, got.Stack)
		}
	}
	if got := panicOf(func() { panic("card 4711") }); got.Value != "card 4711" || !strings.Contains(got.Stack[0], "panic_test.go:") {
		t.Errorf("got the value %v and the stack %q", got.Value, got.Stack)
	}
}

func panicOf(code func()) (failure *statechart.PanicError) {
	defer func() { failure = statechart.Panicked(recover()) }()
	code()
	return nil
}

// TestStepErrorWrapsThePanic finds the panic and its value with errors.As.
func TestStepErrorWrapsThePanic(t *testing.T) {
	t.Parallel()
	panics := statechart.Assign("panics", func(*trace, Event) { panic(fmt.Sprint("card ", 4711)) })
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", Tags: settled, On: []On{{Event: "GO", Actions: Do{panics}}}}}})
	_, err := r.chart.Step(r.step.Next, Event{Type: "GO"})
	var panicked *statechart.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "card 4711" || strings.Contains(err.Error(), "4711") {
		t.Errorf("got %v with %+v, want an error text without the value, and the value in the PanicError", err, panicked)
	}
}
