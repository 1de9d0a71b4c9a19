package dynamostore

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// errNotJSON is returned for text that is not a JSON value.
var errNotJSON = errors.New("expected JSON, got other text")

// parser converts JSON to attribute values in one pass, because every commit converts a snapshot and a history.
// encoding/json would first validate the text and decode it to a tree, which this package would then convert.
type parser struct {
	rest []byte // the text after the last token
}

// parse converts one JSON value. It fails with errNotJSON, or with an error that names the path.
func parse(at path, data []byte) (types.AttributeValue, error) {
	p := parser{data}
	value, err := p.value(at)
	if err == nil && !p.ends() {
		err = errNotJSON
	}
	return value, err
}

// peek skips white space and returns the next character, or 0 at the end.
func (p *parser) peek() byte {
	for i, c := range p.rest {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			p.rest = p.rest[i:]
			return c
		}
	}
	p.rest = nil
	return 0
}

// ends reports whether only white space is left.
func (p *parser) ends() bool {
	p.peek()
	return len(p.rest) == 0
}

// take works like peek, and also consumes the character.
func (p *parser) take() byte {
	c := p.peek()
	if c != 0 {
		p.rest = p.rest[1:]
	}
	return c
}

// value converts the next value.
func (p *parser) value(at path) (types.AttributeValue, error) {
	switch p.peek() {
	case '"':
		s, err := p.text()
		return text(s), err
	case '[', '{':
		if len(at) > NestingMax {
			return nil, fmt.Errorf("%s: expected at most %d nested lists and maps, got more: flatten it", at.String(), NestingMax)
		}
		if p.rest[0] == '[' {
			return p.list(at)
		}
		fields := map[string]types.AttributeValue{}
		err := p.object(func(key string) (err error) {
			fields[key], err = p.value(append(at, step{name: key}))
			return err
		})
		return &types.AttributeValueMemberM{Value: fields}, err
	}
	return p.literal(at)
}

// literal converts a number, a boolean or null.
func (p *parser) literal(at path) (types.AttributeValue, error) {
	end := 0
	for end < len(p.rest) && (p.rest[end] >= '0' && p.rest[end] <= '9' || p.rest[end] >= 'a' && p.rest[end] <= 'z' || p.rest[end] == 'E' || p.rest[end] == '.' || p.rest[end] == '+' || p.rest[end] == '-') {
		end++
	}
	literal := p.rest[:end]
	p.rest = p.rest[end:]
	switch string(literal) {
	case "null":
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case "true", "false":
		return &types.AttributeValueMemberBOOL{Value: literal[0] == 't'}, nil
	}
	if !json.Valid(literal) {
		return nil, errNotJSON
	}
	spelling, ok := storable(string(literal))
	if !ok {
		return nil, &NumberError{Path: at.String(), Number: string(literal)}
	}
	return &types.AttributeValueMemberN{Value: spelling}, nil
}

func (p *parser) list(at path) (types.AttributeValue, error) {
	list := []types.AttributeValue{}
	err := p.elements(']', func() error {
		element, err := p.value(append(at, step{element: len(list) + 1}))
		list = append(list, element)
		return err
	})
	return &types.AttributeValueMemberL{Value: list}, err
}

// object reads the next value, which must be an object. It calls `member` after each key, to read the value.
func (p *parser) object(member func(key string) error) error {
	if p.peek() != '{' {
		return errNotJSON
	}
	return p.elements('}', func() error {
		if p.peek() != '"' {
			return errNotJSON
		}
		key, err := p.text()
		if err == nil && p.take() != ':' {
			err = errNotJSON
		}
		if err != nil {
			return err
		}
		return member(key)
	})
}

// elements reads a list or an object. It calls `element` to read each element.
func (p *parser) elements(end byte, element func() error) error {
	p.take()
	if p.peek() == end {
		p.take()
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch p.take() {
		case ',':
		case end:
			return nil
		default:
			return errNotJSON
		}
	}
}

// text reads a string. The next character is its quotation mark.
func (p *parser) text() (string, error) {
	end, isPlain := 1, true
	for ; end < len(p.rest) && p.rest[end] != '"'; end++ {
		switch c := p.rest[end]; {
		case c == '\\':
			isPlain = false
			end++
		case c < ' ' || c >= utf8.RuneSelf:
			isPlain = false
		}
	}
	if end >= len(p.rest) {
		return "", errNotJSON
	}
	quoted := p.rest[:end+1]
	p.rest = p.rest[end+1:]
	if isPlain {
		return string(quoted[1:end]), nil
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", errNotJSON
	}
	return s, nil
}
