package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of the developer guide, "Service, account, and table quotas", expression parameters.
const (
	BytesMax      = 4096
	OperatorsMax  = 300
	InOperandsMax = 100
)

// parser is a recursive-descent parser over the tokens of one expression.
type parser struct {
	source string
	tokens []token
	// `at` is the index of the next token.
	at int
	// keywords lists the words, in upper case, that cannot be identifiers in this grammar.
	keywords []string
	// operators counts operators and functions.
	operators int
	// redundantParentheses is set if parentheses directly enclose parentheses.
	redundantParentheses bool
	// lastGroup holds the token indexes of the most recently closed parentheses.
	lastGroup [2]int
}

func newParser(source string, keywords ...string) (*parser, error) {
	if source == "" {
		return nil, errors.New("The expression can not be empty;")
	}
	if len(source) > BytesMax {
		return nil, fmt.Errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(source))
	}
	return &parser{source: source, tokens: tokenize(source), keywords: keywords}, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) unexpected() error { return syntaxError(p.source, p.tokens, p.at) }

// isSymbol reports whether the next token is the given symbol.
func (p *parser) isSymbol(text string) bool {
	return p.peek().kind == symbol && p.peek().text == text
}

// acceptSymbol consumes the given symbol if it is next.
func (p *parser) acceptSymbol(text string) bool {
	if !p.isSymbol(text) {
		return false
	}
	p.at++
	return true
}

func (p *parser) expectSymbol(text string) error {
	if !p.acceptSymbol(text) {
		return p.unexpected()
	}
	return nil
}

// keyword returns the next token in upper case if it is a keyword, or "".
func (p *parser) keyword() string {
	if p.peek().kind != identifier {
		return ""
	}
	for _, keyword := range p.keywords {
		if strings.EqualFold(keyword, p.peek().text) {
			return keyword
		}
	}
	return ""
}

func (p *parser) acceptKeyword(keyword string) bool {
	if p.keyword() != keyword {
		return false
	}
	p.at++
	return true
}

// expectEnd rejects text after the expression, and expressions with too many operators.
func (p *parser) expectEnd() error {
	if p.peek().kind != endOfText {
		return p.unexpected()
	}
	if p.operators > OperatorsMax {
		return fmt.Errorf("The expression contains too many operators; operator count: %d", p.operators)
	}
	if p.redundantParentheses {
		return errors.New("The expression has redundant parentheses;")
	}
	return nil
}

// path parses a document path. It does not resolve #names.
func (p *parser) path() (Path, error) {
	name, err := p.pathName()
	if err != nil {
		return nil, err
	}
	path := Path{{Name: name}}
	for {
		switch {
		case p.acceptSymbol("."):
			name, err := p.pathName()
			if err != nil {
				return nil, err
			}
			path = append(path, Step{Name: name})
		case p.acceptSymbol("["):
			index, err := p.index()
			if err != nil {
				return nil, err
			}
			path = append(path, Step{Index: index, IsIndex: true})
		default:
			return path, nil
		}
	}
}

func (p *parser) pathName() (string, error) {
	next := p.peek()
	if next.kind != nameRef && next.kind != identifier || p.keyword() != "" {
		return "", p.unexpected()
	}
	p.at++
	return next.text, nil
}

// index parses a list index and its closing bracket. A number that overflows an int becomes the largest int.
func (p *parser) index() (int, error) {
	if p.peek().kind != number {
		return 0, p.unexpected()
	}
	index, err := strconv.Atoi(p.peek().text)
	if err != nil {
		index = math.MaxInt
	}
	p.at++
	return index, p.expectSymbol("]")
}

// operandOrCall parses a path, a :value or a call. The function `argument` parses one argument of a call.
func (p *parser) operandOrCall(argument func() (node, error)) (node, error) {
	next := p.peek()
	if next.kind == valueRef {
		p.at++
		return &valueOperand{placeholder: next.text}, nil
	}
	if next.kind == identifier && p.keyword() == "" && p.tokens[p.at+1].kind == symbol && p.tokens[p.at+1].text == "(" {
		p.at += 2
		arguments, err := p.list(argument)
		if err != nil {
			return nil, err
		}
		p.operators++
		return &call{function: next.text, arguments: arguments}, nil
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	return &pathOperand{path}, nil
}

// list parses one or more elements, separated by commas, and the closing parenthesis.
func (p *parser) list(element func() (node, error)) ([]node, error) {
	var nodes []node
	for {
		n, err := element()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		if !p.acceptSymbol(",") {
			return nodes, p.expectSymbol(")")
		}
	}
}
