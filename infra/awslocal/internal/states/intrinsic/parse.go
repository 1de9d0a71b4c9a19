// Package intrinsic evaluates the intrinsic functions of the Amazon States Language, such as States.Format('{} is
// {}', $.name, $.age). It follows "Intrinsic functions for JSONPath states in Step Functions" of the AWS Step
// Functions Developer Guide.
//
// States.UUID and States.MathRandom use a random source provided by the caller, so that an execution is reproducible.
package intrinsic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// nestingMax is the maximum nesting depth of calls.
const nestingMax = 10

// Call is a compiled call of an intrinsic function.
type Call struct {
	name      string
	function  function
	arguments []argument
}

// argument is a path, a call or, if it has neither, a literal value.
type argument struct {
	path  *jsonpath.Path
	call  *Call
	value any
}

// Is reports whether a text is a call of an intrinsic function rather than a path.
func Is(text string) bool { return strings.HasPrefix(text, "States.") }

// Parse compiles a call.
func Parse(text string) (*Call, error) {
	p := parser{text: text}
	call, err := p.call(0)
	if err == nil && p.at < len(text) {
		err = fmt.Errorf("'%s' follows the call", text[p.at:])
	}
	if err != nil {
		return nil, fmt.Errorf("cannot parse the intrinsic function '%s': %w", text, err)
	}
	return call, nil
}

type parser struct {
	text string
	at   int
}

// call parses a function's name and its arguments in parentheses.
func (p *parser) call(depth int) (*Call, error) {
	if depth >= nestingMax {
		return nil, fmt.Errorf("calls are nested deeper than %d", nestingMax)
	}
	open := strings.IndexByte(p.text[p.at:], '(')
	if open < 0 {
		return nil, fmt.Errorf("expected '(' after the function name")
	}
	name := p.text[p.at : p.at+open]
	f, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("unknown function '%s': expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	}
	p.at += open + 1
	call := &Call{name: name, function: f}
	p.space()
	for !p.take(')') {
		if len(call.arguments) > 0 {
			if !p.take(',') {
				return nil, fmt.Errorf("expected ',' or ')' at '%s'", p.text[p.at:])
			}
			p.space()
		}
		a, err := p.argument(depth)
		if err != nil {
			return nil, err
		}
		call.arguments = append(call.arguments, a)
		p.space()
	}
	if n := len(call.arguments); n < f.least || (f.most >= 0 && n > f.most) {
		return nil, fmt.Errorf("%s takes %s, not %d", name, f.takes(), n)
	}
	return call, nil
}

// argument parses one argument.
func (p *parser) argument(depth int) (argument, error) {
	rest := p.text[p.at:]
	switch {
	case strings.HasPrefix(rest, "'"):
		value, err := p.quoted()
		return argument{value: value}, err
	case strings.HasPrefix(rest, "$"):
		text := p.until()
		path, err := jsonpath.Parse(text)
		return argument{path: &path}, err
	case Is(rest):
		call, err := p.call(depth + 1)
		return argument{call: call}, err
	}
	text := p.until()
	switch text {
	case "true":
		return argument{value: true}, nil
	case "false":
		return argument{value: false}, nil
	case "null":
		return argument{}, nil
	}
	var number json.Number
	if json.Unmarshal([]byte(text), &number) != nil || text == "" || text[0] == '"' {
		return argument{}, fmt.Errorf("'%s' is neither a path, a string in single quotes, a number, true, false, null nor a call", text)
	}
	return argument{value: number}, nil
}

// literal is a string as written between its quotes, including escapes. States.Format must distinguish escaped braces
// from others.
type literal string

// text returns the unescaped string.
func (l literal) text() string {
	var text strings.Builder
	for i := 0; i < len(l); i++ {
		if l[i] == '\\' && i+1 < len(l) {
			i++
		}
		text.WriteByte(l[i])
	}
	return text.String()
}

// quoted parses a string in single quotes. \ escapes ', {, } and itself.
func (p *parser) quoted() (literal, error) {
	start := p.at + 1
	for i := start; i < len(p.text); i++ {
		switch p.text[i] {
		case '\'':
			p.at = i + 1
			return literal(p.text[start:i]), nil
		case '\\':
			i++
			if i < len(p.text) && strings.IndexByte(`\'{}`, p.text[i]) < 0 {
				return "", fmt.Errorf("invalid escape '\\%c': '\\' may only precede a quote, a brace or itself", p.text[i])
			}
		}
	}
	return "", fmt.Errorf("a string has no closing quote")
}

// until returns the text up to the ',' or ')' that ends an argument, without surrounding white space. It skips
// brackets, parentheses and quotes inside the argument.
func (p *parser) until() string {
	start, depth, quote := p.at, 0, byte(0)
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[' || c == '(':
			depth++
		case depth > 0 && (c == ']' || c == ')'):
			depth--
		case depth == 0 && (c == ',' || c == ')'):
			return strings.TrimSpace(p.text[start:p.at])
		}
	}
	return strings.TrimSpace(p.text[start:p.at])
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}
