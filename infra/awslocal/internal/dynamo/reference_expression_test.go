package dynamo_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// plain is an item of the reference. Its values have the types string, int, []any, plain and members.
type plain = map[string]any

// members is a string set. It is sorted and not empty.
type members []string

// place is a document path: names and indexes.
type place []any

func (p place) in(item plain) any {
	var value any = item
	for _, step := range p {
		switch container := value.(type) {
		case plain:
			name, _ := step.(string)
			value = container[name]
		case []any:
			index, ok := step.(int)
			if !ok || index >= len(container) {
				return nil
			}
			value = container[index]
		default:
			return nil
		}
	}
	return value
}

// places lists the document paths used in expressions.
var places = []place{
	{"g"}, {"n"}, {"s"}, {"l"}, {"m"}, {"t"}, {"absent"}, {"l", 0}, {"l", 1}, {"l", 7}, {"m", "x"}, {"m", "y"}, {"s", "x"}, {"absent", "x"},
}

// writer writes expressions with placeholders, and holds their values.
type writer struct {
	*rapid.T
	names  map[string]string
	values plain
	// `without` lists attributes that the expressions must not use.
	without []string
}

func newWriter(t *rapid.T, without ...string) *writer {
	return &writer{t, map[string]string{}, plain{}, without}
}

func (w *writer) pick(choices ...string) string {
	return rapid.SampledFrom(choices).Draw(w.T, "choice")
}
func (w *writer) number(low, high int) int { return rapid.IntRange(low, high).Draw(w.T, "number") }
func (w *writer) text() string             { return w.pick("a", "ab", "abc", "b", "x y") }

func (w *writer) value(v any) string {
	placeholder := fmt.Sprint(":v", len(w.values))
	w.values[placeholder] = v
	return placeholder
}

func (w *writer) write(p place) string {
	text := ""
	for _, step := range p {
		switch step := step.(type) {
		case int:
			text += fmt.Sprintf("[%d]", step)
		case string:
			if rapid.Bool().Draw(w.T, "placeholder") {
				w.names["#"+step] = step
				step = "#" + step
			}
			text += "." + step
		}
	}
	return text[1:]
}

func (w *writer) place() place {
	allowed := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return slices.Contains(w.without, p[0].(string)) })
	return rapid.SampledFrom(allowed).Draw(w.T, "place")
}

// any draws a value of any type.
func (w *writer) any() any {
	switch w.pick("string", "number", "list", "map", "set") {
	case "string":
		return w.text()
	case "number":
		return w.number(-2, 3)
	case "list":
		return w.list()
	case "map":
		return plain{"x": w.number(-2, 3), "y": w.text()}
	}
	return w.set()
}

func (w *writer) list() []any {
	all := []any{}
	for range w.number(0, 3) {
		all = append(all, rapid.SampledFrom([]any{0, 1, "a", "b"}).Draw(w.T, "element"))
	}
	return all
}

func (w *writer) set() members {
	all := members{w.text(), w.text()}
	slices.Sort(all)
	return slices.Compact(all)
}

// condition is a condition expression. text is its source, and holds evaluates it.
type condition struct {
	text string
	// binds is the precedence of its outermost operator: 0 for OR, 1 for AND, 2 for NOT, 3 for none of these.
	binds int
	holds func(plain) bool
}

// within returns the condition as an operand of an operator with this precedence.
func (c condition) within(w *writer, binds int) string {
	if c.binds < binds || rapid.Bool().Draw(w.T, "parentheses") {
		return "(" + c.text + ")"
	}
	return c.text
}

func (w *writer) condition(depth int) condition {
	operator := "none"
	if depth > 0 {
		operator = w.pick("none", "AND", "OR", "NOT")
	}
	switch operator {
	case "AND":
		a, b := w.condition(depth-1), w.condition(depth-1)
		return condition{a.within(w, 1) + " AND " + b.within(w, 1), 1, func(i plain) bool { return a.holds(i) && b.holds(i) }}
	case "OR":
		a, b := w.condition(depth-1), w.condition(depth-1)
		return condition{a.within(w, 0) + " OR " + b.within(w, 0), 0, func(i plain) bool { return a.holds(i) || b.holds(i) }}
	case "NOT":
		a := w.condition(depth - 1)
		return condition{"NOT " + a.within(w, 2), 2, func(i plain) bool { return !a.holds(i) }}
	}
	return w.simple()
}

func (w *writer) simple() condition {
	p := w.place()
	text := w.write(p)
	atom := func(text string, holds func(plain) bool) condition { return condition{text, 3, holds} }
	switch w.pick("compare", "compare", "compare", "places", "size", "exists", "absent", "type", "begins", "contains", "between", "in") {
	case "exists":
		return atom("attribute_exists("+text+")", func(i plain) bool { return p.in(i) != nil })
	case "absent":
		return atom("attribute_not_exists("+text+")", func(i plain) bool { return p.in(i) == nil })
	case "type":
		types := map[string]reflect.Type{"S": reflect.TypeFor[string](), "N": reflect.TypeFor[int](), "L": reflect.TypeFor[[]any](),
			"M": reflect.TypeFor[plain](), "SS": reflect.TypeFor[members]()}
		name := w.pick(slices.Sorted(maps.Keys(types))...)
		return atom("attribute_type("+text+", "+w.value(name)+")", func(i plain) bool { return reflect.TypeOf(p.in(i)) == types[name] })
	case "begins":
		prefix := w.text()
		return atom("begins_with("+text+", "+w.value(prefix)+")", func(i plain) bool {
			s, ok := p.in(i).(string)
			return ok && strings.HasPrefix(s, prefix)
		})
	case "contains":
		part := rapid.SampledFrom([]any{"a", "b", "bc", 0, 1}).Draw(w.T, "part")
		return atom("contains("+text+", "+w.value(part)+")", func(i plain) bool { return holdsPart(p.in(i), part) })
	case "between":
		low := w.number(-2, 1)
		high := low + w.number(0, 2)
		return atom(text+" BETWEEN "+w.value(low)+" AND "+w.value(high), func(i plain) bool {
			n, ok := p.in(i).(int)
			return ok && low <= n && n <= high
		})
	case "in":
		a, b := w.any(), w.any()
		return atom(text+" IN ("+w.value(a)+", "+w.value(b)+")", func(i plain) bool {
			v := p.in(i)
			return reflect.DeepEqual(v, a) || reflect.DeepEqual(v, b)
		})
	case "size":
		operator, n := w.pick("=", "<>", "<", "<=", ">", ">="), w.number(0, 3)
		return atom("size("+text+") "+operator+" "+w.value(n), func(i plain) bool { return compares(operator, sizeOf(p.in(i)), n) })
	case "places":
		q := w.place()
		if !reflect.DeepEqual(p, q) {
			operator := w.pick("=", "<>", "<", ">=")
			return atom(text+" "+operator+" "+w.write(q), func(i plain) bool { return compares(operator, p.in(i), q.in(i)) })
		}
	}
	operator := w.pick("=", "<>", "<", "<=", ">", ">=")
	v := rapid.SampledFrom([]any{w.text(), w.number(-2, 3)}).Draw(w.T, "value")
	if operator == "=" || operator == "<>" {
		v = w.any()
	}
	if rapid.Bool().Draw(w.T, "value first") {
		return atom(w.value(v)+" "+operator+" "+text, func(i plain) bool { return compares(operator, v, p.in(i)) })
	}
	return atom(text+" "+operator+" "+w.value(v), func(i plain) bool { return compares(operator, p.in(i), v) })
}

// compares applies a comparator. An absent value is not equal to any value.
func compares(operator string, a, b any) bool {
	equal := a != nil && reflect.DeepEqual(a, b)
	switch operator {
	case "=":
		return equal
	case "<>":
		return !equal
	}
	var less, more bool
	switch a := a.(type) {
	case int:
		b, ok := b.(int)
		less, more = ok && a < b, ok && a > b
	case string:
		b, ok := b.(string)
		less, more = ok && a < b, ok && a > b
	default:
		return false
	}
	switch operator {
	case "<":
		return less
	case ">":
		return more
	case "<=":
		return less || equal
	}
	return more || equal
}

func sizeOf(v any) any {
	switch v := v.(type) {
	case string, []any, plain, members:
		return reflect.ValueOf(v).Len()
	}
	return nil
}

func holdsPart(v, part any) bool {
	switch v := v.(type) {
	case string:
		s, ok := part.(string)
		return ok && strings.Contains(v, s)
	case members:
		s, ok := part.(string)
		return ok && slices.Contains(v, s)
	case []any:
		return slices.Contains(v, part)
	}
	return false
}
