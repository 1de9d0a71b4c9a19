package dynamo_test

import (
	"slices"
	"strings"
)

// change is an update expression: its text, and its effect. The effect returns false if DynamoDB rejects the update
// because of the item's content.
type change struct {
	text  string
	apply func(plain) (plain, bool)
}

// action is one action of an update. The function `do` reads the operands from `before`, the item before the update,
// and changes `after`, a copy of it. It returns false if DynamoDB rejects the update.
type action struct {
	section, text string
	do            func(before, after plain) bool
}

// change draws an update of some attributes, each at most once.
func (w *writer) change() change {
	var actions []action
	for _, write := range []func() action{w.changeNumber, w.changeString, w.changeList, w.changeMap, w.changeSet} {
		if w.number(0, 3) == 0 {
			actions = append(actions, write())
		}
	}
	if len(actions) == 0 {
		actions = []action{w.changeNumber()}
	}
	var text []string
	for _, section := range []string{"SET", "REMOVE", "ADD", "DELETE"} {
		var parts []string
		for _, a := range actions {
			if a.section == section {
				parts = append(parts, a.text)
			}
		}
		if len(parts) > 0 {
			text = append(text, section+" "+strings.Join(parts, ", "))
		}
	}
	return change{strings.Join(text, " "), func(before plain) (plain, bool) {
		after := copied(before).(plain)
		for _, a := range actions {
			if !a.do(before, after) {
				return nil, false
			}
		}
		return after, true
	}}
}

func copied(v any) any {
	switch v := v.(type) {
	case plain:
		all := plain{}
		for name, value := range v {
			all[name] = copied(value)
		}
		return all
	case []any:
		all := []any{}
		for _, value := range v {
			all = append(all, copied(value))
		}
		return all
	}
	return v
}

func (w *writer) remove(name string) action {
	return action{"REMOVE", w.write(place{name}), func(_, after plain) bool {
		delete(after, name)
		return true
	}}
}

func (w *writer) changeNumber() action {
	n, target := w.number(-2, 3), w.write(place{"n"})
	from := place{"n"}
	if w.number(0, 3) == 0 {
		from = w.place()
	}
	add := func(before, after plain, p place, n int) bool {
		old, ok := p.in(before).(int)
		after["n"] = old + n
		return ok
	}
	switch w.pick("remove", "set", "plus", "minus", "default", "add", "copy") {
	case "remove":
		return w.remove("n")
	case "plus":
		return action{"SET", target + " = " + w.write(from) + " + " + w.value(n), func(b, a plain) bool { return add(b, a, from, n) }}
	case "minus":
		return action{"SET", target + " = " + w.write(place{"n"}) + " - " + w.value(n), func(b, a plain) bool { return add(b, a, place{"n"}, -n) }}
	case "default":
		return action{"SET", target + " = if_not_exists(" + w.write(from) + ", " + w.value(0) + ") + " + w.value(n), func(b, a plain) bool {
			if from.in(b) == nil {
				a["n"] = n
				return true
			}
			return add(b, a, from, n)
		}}
	case "add":
		return action{"ADD", target + " " + w.value(n), func(b, a plain) bool {
			if b["n"] == nil {
				a["n"] = n
				return true
			}
			return add(b, a, place{"n"}, n)
		}}
	case "copy":
		return action{"SET", target + " = " + w.write(from), func(b, a plain) bool {
			a["n"] = copied(from.in(b))
			return a["n"] != nil
		}}
	}
	return action{"SET", target + " = " + w.value(n), func(_, a plain) bool { a["n"] = n; return true }}
}

func (w *writer) changeString() action {
	s, target := w.text(), w.write(place{"s"})
	switch w.pick("remove", "set", "default") {
	case "remove":
		return w.remove("s")
	case "default":
		return action{"SET", target + " = if_not_exists(" + target + ", " + w.value(s) + ")", func(b, a plain) bool {
			if b["s"] == nil {
				a["s"] = s
			}
			return true
		}}
	}
	return action{"SET", target + " = " + w.value(s), func(_, a plain) bool { a["s"] = s; return true }}
}

func (w *writer) changeList() action {
	l, index, v := w.list(), w.number(0, 4), w.any()
	target, element := w.write(place{"l"}), place{"l", index}
	switch w.pick("remove", "set", "append", "default", "element", "removes") {
	case "remove":
		return w.remove("l")
	case "append":
		return action{"SET", target + " = list_append(" + target + ", " + w.value(l) + ")", func(b, a plain) bool {
			old, ok := b["l"].([]any)
			a["l"] = append(append([]any{}, old...), l...)
			return ok
		}}
	case "default":
		return action{"SET", target + " = list_append(" + w.value(l) + ", if_not_exists(" + target + ", " + w.value([]any{}) + "))", func(b, a plain) bool {
			old, ok := b["l"].([]any)
			a["l"] = append(append([]any{}, l...), old...)
			return ok || b["l"] == nil
		}}
	case "element":
		return action{"SET", w.write(element) + " = " + w.value(v), func(_, a plain) bool {
			list, ok := a["l"].([]any)
			if index < len(list) {
				list[index] = v
			} else {
				list = append(list, v)
			}
			a["l"] = list
			return ok
		}}
	case "removes":
		other := (index + 1 + w.number(0, 2)) % 5
		return action{"REMOVE", w.write(element) + ", " + w.write(place{"l", other}), func(_, a plain) bool {
			list, ok := a["l"].([]any)
			kept := []any{}
			for i, v := range list {
				if i != index && i != other {
					kept = append(kept, v)
				}
			}
			a["l"] = kept
			return ok
		}}
	}
	return action{"SET", target + " = " + w.value(l), func(_, a plain) bool { a["l"] = l; return true }}
}

func (w *writer) changeMap() action {
	x, key := place{"m", "x"}, w.pick("x", "y", "z")
	v, n := w.any(), w.number(-2, 3)
	switch w.pick("remove", "set", "key", "removeKey", "add") {
	case "remove":
		return w.remove("m")
	case "key":
		return action{"SET", w.write(place{"m", key}) + " = " + w.value(v), func(_, a plain) bool {
			m, ok := a["m"].(plain)
			if ok {
				m[key] = v
			}
			return ok
		}}
	case "removeKey":
		return action{"REMOVE", w.write(place{"m", key}), func(_, a plain) bool {
			m, ok := a["m"].(plain)
			delete(m, key)
			return ok
		}}
	case "add":
		return action{"ADD", w.write(x) + " " + w.value(n), func(b, a plain) bool {
			m, ok := a["m"].(plain)
			old, number := x.in(b).(int)
			if ok {
				m["x"] = old + n
			}
			return ok && (number || x.in(b) == nil)
		}}
	}
	m := plain{"x": w.number(-2, 3), "y": w.text()}
	return action{"SET", w.write(place{"m"}) + " = " + w.value(m), func(_, a plain) bool { a["m"] = copied(m); return true }}
}

func (w *writer) changeSet() action {
	set, target := w.set(), w.write(place{"t"})
	switch w.pick("remove", "add", "add", "delete") {
	case "remove":
		return w.remove("t")
	case "delete":
		return action{"DELETE", target + " " + w.value(set), func(b, a plain) bool {
			old, ok := b["t"].(members)
			left := slices.DeleteFunc(slices.Clone(old), func(m string) bool { return slices.Contains(set, m) })
			if a["t"] = left; len(left) == 0 {
				delete(a, "t")
			}
			return ok || b["t"] == nil
		}}
	}
	return action{"ADD", target + " " + w.value(set), func(b, a plain) bool {
		old, ok := b["t"].(members)
		all := slices.Concat(old, set)
		slices.Sort(all)
		a["t"] = slices.Compact(all)
		return ok || b["t"] == nil
	}}
}
