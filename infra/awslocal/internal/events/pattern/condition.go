package pattern

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// condition is one condition of a field.
type condition struct {
	// `absent` is set if the field must not exist. If it is not set, the function `matches` tests a leaf: a string,
	// json.Number, bool or nil.
	absent  bool
	matches func(leaf any) bool
}

// operatorNames lists the operators.
var operatorNames = []string{"anything-but", "cidr", "equals-ignore-case", "exists", "numeric", "prefix", "suffix", "wildcard"}

// operator returns the function that compiles the operand of an operator.
func operator(name string) func(operand any) (condition, error) {
	return map[string]func(any) (condition, error){
		"prefix":             cased(strings.HasPrefix),
		"suffix":             cased(strings.HasSuffix),
		"equals-ignore-case": ofText(strings.EqualFold),
		"wildcard":           wildcard,
		"exists":             exists,
		"numeric":            numeric,
		"cidr":               cidr,
		"anything-but":       anythingBut,
	}[name]
}

// compileConditions compiles the array of conditions of a field.
func compileConditions(path string, values []any) ([]condition, error) {
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: expected at least one condition, got an empty array", path)
	}
	var conditions []condition
	for _, value := range values {
		c, err := compileCondition(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

func compileCondition(value any) (condition, error) {
	switch value := value.(type) {
	case []any:
		return condition{}, fmt.Errorf("expected a value or an operator, got an array in an array")
	case map[string]any:
		return compileOperator(value)
	default: // a json.Number equals only the same text
		return condition{matches: func(leaf any) bool { return leaf == value }}, nil
	}
}

// compileOperator compiles an object with one operator.
func compileOperator(object map[string]any) (condition, error) {
	if len(object) != 1 {
		return condition{}, fmt.Errorf("expected an object with one operator, got %s", textOf(object))
	}
	for name, operand := range object {
		compile := operator(name)
		if compile == nil {
			return condition{}, fmt.Errorf("unrecognized match type %s: expected one of %s", name, strings.Join(operatorNames, ", "))
		}
		c, err := compile(operand)
		if err != nil {
			return condition{}, fmt.Errorf("%s: %w", name, err)
		}
		return c, nil
	}
	return condition{}, nil // not reached: the object has a member
}

// textOf returns a value as JSON, for errors.
func textOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// ofText returns an operator that compares strings.
func ofText(test func(leaf, operand string) bool) func(any) (condition, error) {
	return func(operand any) (condition, error) {
		text, ok := operand.(string)
		if !ok {
			return condition{}, fmt.Errorf("expected a string, got %s", textOf(operand))
		}
		return condition{matches: func(leaf any) bool {
			s, isText := leaf.(string)
			return isText && test(s, text)
		}}, nil
	}
}

// cased returns an operator whose operand is a string, or an object with equals-ignore-case.
func cased(test func(leaf, operand string) bool) func(any) (condition, error) {
	return func(operand any) (condition, error) {
		object, ok := operand.(map[string]any)
		if !ok {
			return ofText(test)(operand)
		}
		ignored, has := object["equals-ignore-case"]
		if !has || len(object) != 1 {
			return condition{}, fmt.Errorf("expected a string or an object with equals-ignore-case, got %s", textOf(operand))
		}
		return ofText(func(leaf, text string) bool { return test(strings.ToLower(leaf), strings.ToLower(text)) })(ignored)
	}
}

func exists(operand any) (condition, error) {
	wanted, ok := operand.(bool)
	if !ok {
		return condition{}, fmt.Errorf("expected true or false, got %s", textOf(operand))
	}
	return condition{absent: !wanted, matches: func(any) bool { return true }}, nil
}

func cidr(operand any) (condition, error) {
	text, _ := operand.(string)
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return condition{}, fmt.Errorf("expected a range such as 10.0.0.0/24, got %s", textOf(operand))
	}
	return condition{matches: func(leaf any) bool {
		s, _ := leaf.(string)
		address, err := netip.ParseAddr(s)
		return err == nil && prefix.Masked().Contains(address)
	}}, nil
}

// wildcard compiles a text in which * stands for any characters, \* for an asterisk and \\ for a backslash.
func wildcard(operand any) (condition, error) {
	text, ok := operand.(string)
	if !ok {
		return condition{}, fmt.Errorf("expected a string, got %s", textOf(operand))
	}
	parts := []string{""} // The texts around the wildcards.
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '*' && i > 0 && text[i-1] == '*' && parts[len(parts)-1] == "":
			return condition{}, fmt.Errorf("expected no consecutive wildcard characters, got %q", text)
		case text[i] == '*':
			parts = append(parts, "")
			continue
		case text[i] == '\\' && (i+1 == len(text) || text[i+1] != '*' && text[i+1] != '\\'):
			return condition{}, fmt.Errorf(`expected * or \ after a backslash, got %q`, text)
		case text[i] == '\\':
			i++
		}
		parts[len(parts)-1] += text[i : i+1]
	}
	return ofText(func(leaf, _ string) bool { return matchesParts(leaf, parts) })("")
}

// matchesParts reports whether the text consists of the parts in order, with any characters between them.
func matchesParts(text string, parts []string) bool {
	if len(parts) == 1 {
		return text == parts[0]
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// numberMax is the largest number of a numeric condition.
const numberMax = 5e9

// numeric compiles one comparison, or a lower and an upper bound.
func numeric(operand any) (condition, error) {
	list, _ := operand.([]any)
	expected := fmt.Errorf(`expected a comparison such as ["=", 5] or a range such as [">", 0, "<=", 5], with numbers from -5e9 to 5e9, got %s`, textOf(operand))
	if len(list) != 2 && len(list) != 4 {
		return condition{}, expected
	}
	var tests []func(float64) bool
	var bounds []float64
	for i := 0; i < len(list); i += 2 {
		operator, _ := list[i].(string)
		number, isNumber := list[i+1].(json.Number)
		bound, err := number.Float64()
		isLower := strings.HasPrefix(operator, ">")
		if !isNumber || err != nil || bound < -numberMax || bound > numberMax || len(list) == 4 && (operator == "=" || isLower != (i == 0)) {
			return condition{}, expected
		}
		test, known := map[string]func(float64) bool{
			"=": func(n float64) bool { return n == bound },
			"<": func(n float64) bool { return n < bound }, "<=": func(n float64) bool { return n <= bound },
			">": func(n float64) bool { return n > bound }, ">=": func(n float64) bool { return n >= bound },
		}[operator]
		if !known {
			return condition{}, expected
		}
		tests, bounds = append(tests, test), append(bounds, bound)
	}
	if len(bounds) == 2 && bounds[0] >= bounds[1] {
		return condition{}, expected
	}
	return condition{matches: func(leaf any) bool {
		number, isNumber := leaf.(json.Number)
		n, err := number.Float64()
		return isNumber && err == nil && !slices.ContainsFunc(tests, func(test func(float64) bool) bool { return !test(n) })
	}}, nil
}

// anythingBut compiles the operand of anything-but: a value, a list of strings, a list of numbers, or an operator of
// strings.
func anythingBut(operand any) (condition, error) {
	var excluded []condition
	switch operand := operand.(type) {
	case map[string]any:
		var err error
		if excluded, err = excludedByOperator(operand); err != nil {
			return condition{}, err
		}
	case []any:
		isText := false
		for i, value := range operand {
			_, text := value.(string)
			if _, number := value.(json.Number); !text && !number || i > 0 && text != isText {
				return condition{}, fmt.Errorf("expected only strings or only numbers, got %s", textOf(operand))
			}
			isText = text
			excluded = append(excluded, equal(value))
		}
	case string, json.Number:
		excluded = []condition{equal(operand)}
	default:
		return condition{}, fmt.Errorf("expected a string, a number, a list or an operator, got %s", textOf(operand))
	}
	if len(excluded) == 0 {
		return condition{}, fmt.Errorf("expected at least one value, got none")
	}
	return condition{matches: func(leaf any) bool {
		return !slices.ContainsFunc(excluded, func(c condition) bool { return c.matches(leaf) })
	}}, nil
}

// excludedByOperator compiles an operator within anything-but. There, the operand of the operator may be a list.
func excludedByOperator(object map[string]any) (excluded []condition, err error) {
	for name, operand := range object {
		if len(object) != 1 || !slices.Contains([]string{"prefix", "suffix", "equals-ignore-case", "wildcard"}, name) {
			break
		}
		operands, isList := operand.([]any)
		if !isList {
			operands = []any{operand}
		}
		for _, each := range operands {
			c, err := compileOperator(map[string]any{name: each})
			if err != nil {
				return nil, err
			}
			excluded = append(excluded, c)
		}
		return excluded, nil
	}
	return nil, fmt.Errorf("expected one of prefix, suffix, equals-ignore-case and wildcard, got %s", textOf(object))
}

// equal returns the condition that a leaf equals `value`. It compares numbers by value.
func equal(value any) condition {
	wanted, isNumber := value.(json.Number)
	if !isNumber {
		return condition{matches: func(leaf any) bool { return leaf == value }}
	}
	n, _ := wanted.Float64() // A number beyond the range of float64 becomes infinite.
	return condition{matches: func(leaf any) bool {
		number, isNumber := leaf.(json.Number)
		m, err := number.Float64()
		return isNumber && err == nil && m == n
	}}
}
