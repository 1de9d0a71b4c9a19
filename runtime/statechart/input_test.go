package statechart_test

import (
	"errors"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

type ticket struct {
	Seats int `json:"seats"`
}

func (t ticket) Validate() error {
	if t.Seats < 0 {
		return errPlanned
	}
	return nil
}

// seating returns a chart with the given input declaration. If the input is a ticket, the counter starts with the
// number of its seats.
func seating(t *testing.T, input statechart.Payload) *statechart.Chart[trace] {
	t.Helper()
	return compile(t, traced(Def{Initial: "a", Input: input, States: []S{{ID: "a"}}, Context: func(s statechart.Start) trace {
		given, _ := s.Input.(ticket)
		return trace{N: given.Seats}
	}}))
}

func TestContextIsComputedFromTheInput(t *testing.T) {
	t.Parallel()
	chart := seating(t, statechart.PayloadOf[ticket]())
	input, err := chart.DecodeInput([]byte(`{"seats": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{Instance: "c/1", At: epoch, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "N", step.Next.Context.N, 3)
	equal(t, "takes input", chart.TakesInput(), true)
}

func TestInputOfAnotherTypeIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		declared statechart.Payload
		input    any
		message  string
	}{
		"another type": {statechart.PayloadOf[ticket](), 3, "wrong payload: the input of chart c: expected statechart_test.ticket, got int"},
		"a pointer":    {statechart.PayloadOf[ticket](), &ticket{}, "wrong payload: the input of chart c: expected statechart_test.ticket, got *statechart_test.ticket"},
		"none":         {statechart.PayloadOf[ticket](), nil, "wrong payload: the input of chart c: expected statechart_test.ticket, got nothing"},
		"undeclared":   {statechart.Payload{}, ticket{}, "wrong payload: the input of chart c: expected nothing, got statechart_test.ticket"},
	} {
		_, err := seating(t, c.declared).Start(statechart.Start{At: epoch, Input: c.input})
		if !errors.Is(err, statechart.ErrPayload) || err.Error() != c.message {
			t.Errorf("%s: got the error %v, want %s", name, err, c.message)
		}
	}
}

func TestDecodeInputChecksTheShape(t *testing.T) {
	t.Parallel()
	chart := seating(t, statechart.PayloadOf[ticket]())
	for body, message := range map[string]string{
		`{"seats": "3"}`: "wrong payload: the input of chart c: expected a whole number of 64 bits under \"seats\", got a string",
		`{"seats": -1}`:  "wrong payload: the input of chart c: planned",
		``:               "wrong payload: the input of chart c: expected an object, got nothing",
	} {
		if _, err := chart.DecodeInput([]byte(body)); !errors.Is(err, statechart.ErrPayload) || err.Error() != message {
			t.Errorf("%s: got the error %v, want %s", body, err, message)
		}
	}
	none := seating(t, statechart.NoPayload())
	equal(t, "takes input", none.TakesInput(), false)
	for body, message := range map[string]string{"": "", "null": "", "{}": "wrong payload: chart c declares no Input, got an object"} {
		input, err := none.DecodeInput([]byte(body))
		if input != nil || (err == nil) != (message == "") || err != nil && err.Error() != message {
			t.Errorf("%q: got %v and the error %v, want none and %q", body, input, err, message)
		}
	}
}

func TestUnexpectedInputIsNamedByKind(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(Def{Initial: "a", States: []S{{ID: "a"}}}))
	for body, kind := range map[string]string{`"secret"`: "a string", `7`: "a number", `{}`: "an object", `true`: "a boolean"} {
		_, err := chart.DecodeInput([]byte(body))
		if !errors.Is(err, statechart.ErrPayload) || err.Error() != "wrong payload: chart c declares no Input, got "+kind {
			t.Errorf("%s: got the error %v", body, err)
		}
	}
}
