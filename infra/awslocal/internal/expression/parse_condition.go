package expression

import "slices"

var conditionKeywords = []string{"AND", "OR", "NOT", "BETWEEN", "IN"}

var comparators = []string{"=", "<>", "<", "<=", ">", ">="}

// parseCondition parses
//
//	condition ::= and { OR and }
//	and       ::= not { AND not }
//	not       ::= NOT not | term
//	term      ::= operand comparator operand
//	            | operand BETWEEN operand AND operand
//	            | operand IN ( operand {, operand} )
//	            | function ( operand {, operand} )
//	            | ( condition )
//	operand   ::= path | :value | function ( operand {, operand} ) | ( operand )
//
// in the order of precedence in the developer guide. Only the text inside parentheses shows whether they hold a
// condition or an operand. One method therefore parses both, and its callers check the result.
func parseCondition(source string) (node, error) {
	p, err := newParser(source, conditionKeywords...)
	if err != nil {
		return nil, err
	}
	n, err := p.condition()
	if err != nil {
		return nil, err
	}
	if !isCondition(n) {
		return nil, p.unexpected()
	}
	return n, p.expectEnd()
}

// condition parses a condition or a single operand.
func (p *parser) condition() (node, error) {
	return p.logical("OR", func() (node, error) {
		return p.logical("AND", p.not)
	})
}

// logical parses one or more parts joined by an operator.
func (p *parser) logical(operator string, part func() (node, error)) (node, error) {
	left, err := part()
	for err == nil && p.keyword() == operator {
		if !isCondition(left) {
			return nil, p.unexpected()
		}
		p.at++
		p.operators++
		var right node
		if right, err = part(); err == nil && !isCondition(right) {
			return nil, p.unexpected()
		}
		left = &logical{operator: operator, left: left, right: right}
	}
	return left, err
}

func (p *parser) not() (node, error) {
	if !p.acceptKeyword("NOT") {
		return p.term()
	}
	p.operators++
	n, err := p.not()
	if err == nil && !isCondition(n) {
		return nil, p.unexpected()
	}
	return &not{n}, err
}

func (p *parser) term() (node, error) {
	left, err := p.operandOrGroup()
	if err != nil {
		return nil, err
	}
	next := p.peek()
	keyword := p.keyword()
	isComparator := next.kind == symbol && slices.Contains(comparators, next.text)
	if !isComparator && keyword != "BETWEEN" && keyword != "IN" {
		return left, nil
	}
	if !isOperand(left) {
		return nil, p.unexpected()
	}
	p.at++
	p.operators++
	switch keyword {
	case "BETWEEN":
		return p.between(left)
	case "IN":
		if err := p.expectSymbol("("); err != nil {
			return nil, err
		}
		candidates, err := p.list(p.operand)
		return &in{subject: left, candidates: candidates}, err
	}
	right, err := p.operand()
	return &comparison{operator: next.text, left: left, right: right}, err
}

func (p *parser) between(subject node) (node, error) {
	low, err := p.operand()
	if err != nil {
		return nil, err
	}
	if !p.acceptKeyword("AND") {
		return nil, p.unexpected()
	}
	high, err := p.operand()
	return &between{subject: subject, low: low, high: high}, err
}

// operand parses an operand, with or without parentheses.
func (p *parser) operand() (node, error) {
	n, err := p.operandOrGroup()
	if err == nil && !isOperand(n) {
		return nil, p.unexpected()
	}
	return n, err
}

// operandOrGroup parses an operand, or a condition in parentheses.
func (p *parser) operandOrGroup() (node, error) {
	open := p.at
	if !p.acceptSymbol("(") {
		return p.operandOrCall(p.operand)
	}
	n, err := p.condition()
	if err != nil {
		return nil, err
	}
	closing := p.at
	if err := p.expectSymbol(")"); err != nil {
		return nil, err
	}
	if p.lastGroup == [2]int{open + 1, closing - 1} {
		p.redundantParentheses = true
	}
	p.lastGroup = [2]int{open, closing}
	return n, nil
}
