package statechart

import (
	"math"
	"reflect"
	"testing"
)

type counter struct{ N int }

// TestErasingLosesNothing fills all fields of a definition's states with distinct values and checks each in the erased
// form.
func TestErasingLosesNothing(t *testing.T) {
	t.Parallel()
	f := &filling{truth: func(string) bool { return true }, numbers: map[string]int{}}
	erased := f.erase(t)
	if got := erased.Invoke[0].Service.result; got != reflect.TypeFor[counter]() {
		t.Errorf("got a service with the result %v, want the result type of the definition", got)
	}
	x := &interpreter{context: &counter{N: 1}, event: &Event{}}
	if err := erased.Entry[1].perform(x); err != nil || contextOf[counter](x).N != 2 {
		t.Errorf("got the context %v and error %v after the action, want N to be 2", *contextOf[counter](x), err)
	}
	guard := erased.On[0].Guard
	if holds, err := guard.holds(x); !holds || err != nil || len(guard.of) != 1 || guard.of[0].Name != "none" {
		t.Errorf("got %v and %v of the guard, made of %v, want it to hold and to have its operand", holds, err, guard.of)
	}
	if len(f.truths) < 10 {
		t.Errorf("got the truth values %q, want at least ten", f.truths)
	}
	for _, alone := range f.truths {
		(&filling{truth: func(path string) bool { return path == alone }, numbers: map[string]int{}}).erase(t)
	}
}

// filling fills a value. Each string and each function gets the path of its field. Each number gets a distinct value.
type filling struct {
	truth   func(path string) bool
	numbers map[string]int
	// truths holds the paths of boolean fields.
	truths []string
}

// erase fills a state and checks its erased form.
func (f *filling) erase(t *testing.T) State[erased] {
	t.Helper()
	var state State[counter]
	f.fill("State", reflect.ValueOf(&state).Elem(), 2)
	state.Entry = append(state.Entry, Update("up", func(c *counter) { c.N++ }))
	guard := &state.On[0].Guard
	name, params := guard.Name, guard.Params
	*guard = Not(If("none", func(c counter) bool { return c.N == 0 }))
	guard.Name, guard.Params = name, params
	state.Invoke[0].Service.result = reflect.TypeFor[counter]()
	erased := eraseStates([]State[counter]{state}, map[stateList][]State[erased]{})[0]
	f.check(t, "State", reflect.ValueOf(erased))
	return erased
}

// fill sets all exported fields below a settable value. It nests lists of states down to the given depth.
func (f *filling) fill(path string, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		f.truths = append(f.truths, path)
		v.SetBool(f.truth(path))
	case reflect.Int, reflect.Int64:
		v.SetInt(f.number(path))
	case reflect.Uint8:
		v.SetUint(uint64(f.number(path)))
	case reflect.Float64:
		v.SetFloat(float64(f.number(path)))
	case reflect.Interface:
		v.Set(reflect.ValueOf(path))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic(path) }))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]State[counter]]() {
			depth--
		}
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			f.fill(path, v.Index(0), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.fill(path+"."+field.Name, v.Field(i), depth)
			}
		}
	default:
		panic("expected a kind that fill knows, got " + v.Kind().String())
	}
}

// number returns a distinct number for a path. It fits in a byte.
func (f *filling) number(path string) int64 {
	f.numbers[path] = len(f.numbers) + 1
	if f.numbers[path] > math.MaxUint8 {
		panic("expected at most 255 numbers")
	}
	return int64(f.numbers[path])
}

// check checks each value against the value that fill has set at its path.
func (f *filling) check(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	var got, want any
	switch v.Kind() {
	case reflect.String:
		got, want = v.String(), path
	case reflect.Bool:
		got, want = v.Bool(), f.truth(path)
	case reflect.Int, reflect.Int64:
		got, want = v.Int(), int64(f.numbers[path])
	case reflect.Uint8:
		got, want = v.Uint(), uint64(f.numbers[path])
	case reflect.Float64:
		got, want = v.Float(), float64(f.numbers[path])
	case reflect.Interface:
		got, want = v.Interface(), path
	case reflect.Func:
		got, want = panicOf(v), path
	case reflect.Slice:
		if v.Len() > 0 {
			f.check(t, path, v.Index(0))
		} else if path != "State.States.States" {
			t.Errorf("%s is lost", path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.check(t, path+"."+field.Name, v.Field(i))
			}
		}
	default:
		t.Errorf("%s: expected a kind that check knows, got %v", path, v.Kind())
	}
	if got != want {
		t.Errorf("%s: got %v, want %v", path, got, want)
	}
}

// panicOf calls an erased function and returns its panic value.
func panicOf(function reflect.Value) (value any) {
	if function.IsNil() {
		return nil
	}
	var args []reflect.Value
	for i := range function.Type().NumIn() {
		arg := reflect.Zero(function.Type().In(i))
		if function.Type().In(i) == reflect.TypeFor[erased]() {
			arg = reflect.ValueOf(&counter{})
		}
		args = append(args, arg)
	}
	defer func() { value = recover() }()
	function.Call(args)
	return nil
}

// TestContextTypesDoNotMix shows that parts made for one context type do not convert to another.
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
