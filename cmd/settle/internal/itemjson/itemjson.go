// Package itemjson reads and writes DynamoDB items as lines of JSON, in the format of DynamoDB's exports to S3 (Amazon
// DynamoDB Developer Guide, "DynamoDB table export output format", DYNAMODB_JSON).
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
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item of a table.
type Item = map[string]types.AttributeValue

// lineBytesMax limits a line. An item has at most 400 KB. JSON needs at most six bytes for a byte of text.
const lineBytesMax = 8 << 20

// Marshal returns the line of an item, without the newline.
func Marshal(item Item) ([]byte, error) {
	attributes, err := attributevalue.MarshalMapJSON(item)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"Item":`), attributes, []byte("}")), nil
}

// Unmarshal reads a line. Because package attributevalue ignores unknown and missing values, Unmarshal rejects a line
// whose values Marshal would write differently.
func Unmarshal(line []byte) (Item, error) {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(line, &form); err != nil {
		return nil, fmt.Errorf(`expected a line {"Item": {...}}: %w`, err)
	}
	raw, ok := form["Item"]
	if !ok || len(form) != 1 {
		return nil, fmt.Errorf(`expected the key "Item" alone, as in a backup or a full export, got the keys %s`, strings.Join(slices.Sorted(maps.Keys(form)), ", "))
	}
	item, err := attributevalue.UnmarshalMapJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the item: %w", err)
	}
	again, err := attributevalue.MarshalMapJSON(item)
	var given, kept any
	if err == nil {
		err = errors.Join(json.Unmarshal(raw, &given), json.Unmarshal(again, &kept))
	}
	if err != nil || !reflect.DeepEqual(given, kept) {
		return nil, errors.New(`expected each value as one type of DynamoDB with its value, such as {"S": "a"}`)
	}
	return item, nil
}

// Line is a line of a file.
type Line struct {
	// Number is the line number, from 1.
	Number int
	Item   Item
	// Err is set if the line has no item. Later lines may have items.
	Err error
}

// Read yields the lines of a file, which may be compressed with gzip. Empty lines are skipped. An error from reading
// the file ends the sequence.
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
	return reflect.DeepEqual(a, b)
}
