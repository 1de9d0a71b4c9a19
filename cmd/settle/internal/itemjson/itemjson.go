// Package itemjson reads and writes items of DynamoDB as lines of JSON, in the form of DynamoDB's exports to S3
// (Amazon DynamoDB Developer Guide, "DynamoDB table export output format", DYNAMODB_JSON).
package itemjson

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item of a table.
type Item = map[string]types.AttributeValue

// lineBytesMax limits a line. An item has at most 400 KB. JSON needs at most six bytes for a byte of a text.
const lineBytesMax = 8 << 20

// Marshal returns the line of an item, without the newline.
func Marshal(item Item) ([]byte, error) {
	attributes, err := formOfMap(item)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(map[string]any{"Item": attributes})
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// formOf returns a value to encode as JSON.
func formOf(value types.AttributeValue) (any, error) {
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}, nil
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}, nil
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}, nil
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}, nil
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}, nil
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}, nil
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": v.Value}, nil
	case *types.AttributeValueMemberBS:
		return map[string]any{"BS": v.Value}, nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, element := range v.Value {
			var err error
			if list[i], err = formOf(element); err != nil {
				return nil, err
			}
		}
		return map[string]any{"L": list}, nil
	case *types.AttributeValueMemberM:
		fields, err := formOfMap(v.Value)
		return map[string]any{"M": fields}, err
	default:
		return nil, fmt.Errorf("expected an attribute value that this build knows, got %T", value)
	}
}

func formOfMap(values Item) (map[string]any, error) {
	fields := make(map[string]any, len(values))
	for name, value := range values {
		var err error
		if fields[name], err = formOf(value); err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return fields, nil
}

// Unmarshal reads a line.
func Unmarshal(line []byte) (Item, error) {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(line, &form); err != nil {
		return nil, fmt.Errorf(`expected a line {"Item": {...}}: %w`, err)
	}
	raw, ok := form["Item"]
	if !ok || len(form) != 1 {
		return nil, fmt.Errorf(`expected the key "Item" alone, as in a backup or a full export, got the keys %s`, strings.Join(slices.Sorted(maps.Keys(form)), ", "))
	}
	return mapOf(raw)
}

func mapOf(raw json.RawMessage) (Item, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	item := make(Item, len(fields))
	for name, field := range fields {
		var err error
		if item[name], err = valueOf(field); err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return item, nil
}

// valueOf reads a value with its type, such as {"S": "a"}.
func valueOf(raw json.RawMessage) (types.AttributeValue, error) {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, err
	}
	if len(form) != 1 {
		return nil, fmt.Errorf(`expected one type with its value, such as {"S": "a"}, got %.80s`, raw)
	}
	for typ, raw := range form {
		return typed(typ, raw)
	}
	panic("unreachable: the form has one key")
}

func typed(typ string, raw json.RawMessage) (types.AttributeValue, error) {
	switch typ {
	case "S":
		v := &types.AttributeValueMemberS{}
		return v, json.Unmarshal(raw, &v.Value)
	case "N":
		v := &types.AttributeValueMemberN{}
		return v, json.Unmarshal(raw, &v.Value)
	case "B":
		v := &types.AttributeValueMemberB{}
		return v, json.Unmarshal(raw, &v.Value)
	case "BOOL":
		v := &types.AttributeValueMemberBOOL{}
		return v, json.Unmarshal(raw, &v.Value)
	case "NULL":
		v := &types.AttributeValueMemberNULL{}
		return v, json.Unmarshal(raw, &v.Value)
	case "SS":
		v := &types.AttributeValueMemberSS{}
		return v, json.Unmarshal(raw, &v.Value)
	case "NS":
		v := &types.AttributeValueMemberNS{}
		return v, json.Unmarshal(raw, &v.Value)
	case "BS":
		v := &types.AttributeValueMemberBS{}
		return v, json.Unmarshal(raw, &v.Value)
	case "L":
		return listOf(raw)
	case "M":
		fields, err := mapOf(raw)
		return &types.AttributeValueMemberM{Value: fields}, err
	default:
		return nil, fmt.Errorf("expected a type of DynamoDB, such as S, N or M, got %q", typ)
	}
}

func listOf(raw json.RawMessage) (types.AttributeValue, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, err
	}
	list := make([]types.AttributeValue, len(elements))
	for i, element := range elements {
		var err error
		if list[i], err = valueOf(element); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return &types.AttributeValueMemberL{Value: list}, nil
}

// Line is a line of a file.
type Line struct {
	// Number counts from 1.
	Number int
	Item   Item
	// Err is set if the line has no item. The next line may have one.
	Err error
}

// Read yields the lines of a file, which may be compressed with gzip. Empty lines are skipped. An error of the file itself
// ends the sequence.
func Read(file io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		buffered := bufio.NewReader(file)
		if magic, err := buffered.Peek(2); err == nil && string(magic) == "\x1f\x8b" {
			unzipped, err := gzip.NewReader(buffered)
			if err != nil {
				yield(Line{}, err)
				return
			}
			buffered = bufio.NewReader(unzipped)
		}
		lines := bufio.NewScanner(buffered)
		lines.Buffer(make([]byte, 64<<10), lineBytesMax)
		number := 0
		for lines.Scan() {
			number++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			item, err := Unmarshal(lines.Bytes())
			if !yield(Line{Number: number, Item: item, Err: err}, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(Line{}, fmt.Errorf("line %d: expected at most %d bytes: the file is not a backup", number+1, lineBytesMax))
		case errors.Is(err, io.ErrUnexpectedEOF):
			yield(Line{}, fmt.Errorf("after line %d: the file is incomplete: %w", number, err))
		case err != nil:
			yield(Line{}, fmt.Errorf("after line %d: %w", number, err))
		}
	}
}

// Equal reports whether two items are equal. The elements of a set have no order.
func Equal(a, b Item) bool { return maps.EqualFunc(a, b, equal) }

func equal(a, b types.AttributeValue) bool {
	switch x := a.(type) {
	case *types.AttributeValueMemberL:
		y, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(x.Value, y.Value, equal)
	case *types.AttributeValueMemberM:
		y, ok := b.(*types.AttributeValueMemberM)
		return ok && Equal(x.Value, y.Value)
	case *types.AttributeValueMemberSS:
		y, ok := b.(*types.AttributeValueMemberSS)
		return ok && slices.Equal(slices.Sorted(slices.Values(x.Value)), slices.Sorted(slices.Values(y.Value)))
	case *types.AttributeValueMemberNS:
		y, ok := b.(*types.AttributeValueMemberNS)
		return ok && slices.Equal(slices.Sorted(slices.Values(x.Value)), slices.Sorted(slices.Values(y.Value)))
	case *types.AttributeValueMemberBS:
		y, ok := b.(*types.AttributeValueMemberBS)
		return ok && slices.EqualFunc(slices.SortedFunc(slices.Values(x.Value), bytes.Compare), slices.SortedFunc(slices.Values(y.Value), bytes.Compare), bytes.Equal)
	}
	left, errLeft := formOf(a)
	right, errRight := formOf(b)
	if errLeft != nil || errRight != nil {
		return false
	}
	x, errLeft := json.Marshal(left)
	y, errRight := json.Marshal(right)
	return errLeft == nil && errRight == nil && bytes.Equal(x, y)
}
