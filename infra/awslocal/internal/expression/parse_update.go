package expression

import (
	"fmt"
	"slices"
)

var updateKeywords = []string{"SET", "REMOVE", "ADD", "DELETE"}

// action is one change of an update expression: SET path = value, REMOVE path, ADD path value or DELETE path value.
type action struct {
	section string
	path    Path
	value   node // nil for REMOVE
}

// parseUpdate parses
//
//	update ::= { SET set {, set} | REMOVE path {, path} | ADD path :value {, path :value}
//	           | DELETE path :value {, path :value} }
//	set    ::= path = value
//	value  ::= operand | operand + operand | operand - operand
//
// where operand is defined as in conditions. Each section may occur once.
func parseUpdate(source string) ([]action, error) {
	p, err := newParser(source, updateKeywords...)
	if err != nil {
		return nil, err
	}
	var actions []action
	var sections []string
	repeated := ""
	for {
		section := p.keyword()
		if section == "" {
			break
		}
		p.at++
		if slices.Contains(sections, section) {
			repeated = section
		}
		sections = append(sections, section)
		for more := true; more; more = p.acceptSymbol(",") {
			action, err := p.action(section)
			if err != nil {
				return nil, err
			}
			actions = append(actions, action)
		}
	}
	if err := p.expectEnd(); err != nil {
		return nil, err
	}
	if repeated != "" {
		return nil, fmt.Errorf("The %q section can only be used once in an update expression;", repeated)
	}
	if len(actions) == 0 {
		return nil, p.unexpected()
	}
	return actions, nil
}

func (p *parser) action(section string) (action, error) {
	path, err := p.path()
	if err != nil {
		return action{}, err
	}
	a := action{section: section, path: path}
	switch section {
	case "REMOVE":
	case "SET":
		if err := p.expectSymbol("="); err != nil {
			return action{}, err
		}
		a.value, err = p.setValue()
	default:
		if p.peek().kind != valueRef {
			return action{}, p.unexpected()
		}
		a.value = &valueOperand{placeholder: p.peek().text}
		p.at++
	}
	return a, err
}

// setValue parses the right side of SET. Parentheses may enclose it and each of its operands.
func (p *parser) setValue() (node, error) {
	left, err := p.setOperand(p.setValue)
	if err != nil || !p.isSymbol("+") && !p.isSymbol("-") {
		return left, err
	}
	operator := p.peek().text
	p.at++
	p.operators++
	right, err := p.setOperand(p.setOperandAlone)
	return &arithmetic{operator: operator, left: left, right: right}, err
}

// setOperand parses an operand, or calls `inner` for the text in parentheses.
func (p *parser) setOperand(inner func() (node, error)) (node, error) {
	if !p.acceptSymbol("(") {
		return p.operandOrCall(p.setOperandAlone)
	}
	n, err := inner()
	if err != nil {
		return nil, err
	}
	return n, p.expectSymbol(")")
}

func (p *parser) setOperandAlone() (node, error) {
	return p.setOperand(p.setOperandAlone)
}
