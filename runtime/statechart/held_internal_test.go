package statechart

import (
	"reflect"
	"testing"
)

type counter struct{ N int }

// TestErasingLosesNothing fills all fields of a definition's states and looks for them in what is erased.
func TestErasingLosesNothing(t *testing.T) {
	t.Parallel()
	var state State[counter]
	fill(reflect.ValueOf(&state).Elem(), 2)
	state.Entry = append(state.Entry, Update("up", func(c *counter) { c.N++ }))
	state.On[0].Guard = Not(If("none", func(c counter) bool { return c.N == 0 }))
	state.On[0].Guard.Params = []byte("1")
	state.Invoke[0].Service.result = reflect.TypeFor[counter]()

	erased := eraseStates([]State[counter]{state}, map[stateList][]State[held]{})[0]
	checkFilled(t, "State", reflect.ValueOf(erased))
	if got := erased.Invoke[0].Service.result; got != reflect.TypeFor[counter]() {
		t.Errorf("got a service with the result %v, want that of the definition's", got)
	}
	x := &interpreter{context: &counter{N: 1}, event: &Event{}}
	if err := erased.Entry[1].perform(x); err != nil || contextOf[counter](x).N != 2 {
		t.Errorf("got the context %v and error %v after the action, want it to count", *contextOf[counter](x), err)
	}
	guard := erased.On[0].Guard
	if holds, err := guard.holds(x); !holds || err != nil || len(guard.of) != 1 || guard.of[0].Name != "none" {
		t.Errorf("got %v and %v of the guard, made of %v, want it to hold and to know what it is made of", holds, err, guard.of)
	}
}

// fill sets all exported fields below a value that is set, lists of states as deep as that.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint('1')
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("expected not to be called") }))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]State[counter]]() {
			depth--
		}
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	default:
		panic("expected a kind that fill knows, got " + v.Kind().String())
	}
}

// checkFilled checks that all that fill sets is set.
func checkFilled(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		if path != "State.States.States" {
			t.Errorf("%s is lost", path)
		}
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		checkFilled(t, path, v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				checkFilled(t, path+"."+field.Name, v.Field(i))
			}
		}
	default:
	}
}

// TestContextTypesDoNotMix shows that no conversion makes of what was made for one context type what runs on another.
func TestContextTypesDoNotMix(t *testing.T) {
	t.Parallel()
	type other struct{ N int }
	for _, types := range [][2]reflect.Type{
		{reflect.TypeFor[Action[counter]](), reflect.TypeFor[Action[other]]()},
		{reflect.TypeFor[Guard[counter]](), reflect.TypeFor[Guard[other]]()},
		{reflect.TypeFor[Transition[counter]](), reflect.TypeFor[Transition[other]]()},
		{reflect.TypeFor[State[counter]](), reflect.TypeFor[State[other]]()},
		{reflect.TypeFor[Chart[counter]](), reflect.TypeFor[Chart[other]]()},
		{reflect.TypeFor[Snapshot[counter]](), reflect.TypeFor[Snapshot[other]]()},
	} {
		if types[0].ConvertibleTo(types[1]) {
			t.Errorf("expected that %v does not convert to %v", types[0], types[1])
		}
	}
}
