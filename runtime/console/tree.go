package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// node is one value in the tree of a JSON text.
type node struct {
	// Path identifies the node, so that a new tree can be compared with an earlier one: "/items/2/price".
	Path, Key string
	// Value is the text of a value that has no parts. Kind is "string", "number", "literal", "object" or "array".
	Value, Kind string
	Parts       []*node
	// Omitted counts the parts beyond treeNodesMax.
	Omitted int
}

const (
	// treeNodesMax limits the nodes that a page shows.
	treeNodesMax = 2000
	// treeDepthMax limits the nesting. A value with deeper nesting is shown as text.
	treeDepthMax = 100
	// treeTextMax limits the length of a value, in bytes.
	treeTextMax = 2000
)

// treeOf returns the tree of a JSON text, with keys in their order. It returns nil for no text and for null. A text
// that is invalid or nested too deeply becomes a single node.
func treeOf(text json.RawMessage) *node {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	left := treeNodesMax
	root, err := readNode(decoder, "", "", treeDepthMax, &left)
	if err != nil {
		return &node{Value: shortened(string(text)), Kind: "literal"}
	}
	return root
}

// readNode reads a value. It fails if the value's nesting exceeds depth.
func readNode(decoder *json.Decoder, path, key string, depth int, left *int) (*node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, errors.New("nested too deeply")
	}
	*left--
	n := &node{Path: path, Key: key}
	switch value := token.(type) {
	case json.Delim:
		return n, n.readParts(decoder, value, depth-1, left)
	case string:
		n.Value, n.Kind = shortened(strconv.Quote(value)), "string"
	case json.Number:
		n.Value, n.Kind = shortened(value.String()), "number"
	case bool:
		n.Value, n.Kind = strconv.FormatBool(value), "literal"
	default:
		n.Value, n.Kind = "null", "literal"
	}
	return n, nil
}

// readParts reads the parts of an object or an array, and the delimiter that ends it.
func (n *node) readParts(decoder *json.Decoder, open json.Delim, depth int, left *int) error {
	n.Kind = "array"
	if open == '{' {
		n.Kind = "object"
	}
	for i := 0; decoder.More(); i++ {
		key := strconv.Itoa(i)
		if n.Kind == "object" {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string)
		}
		part, err := readNode(decoder, n.Path+"/"+key, key, depth, left)
		if err != nil {
			return err
		}
		if *left < 0 {
			n.Omitted++
			continue
		}
		n.Parts = append(n.Parts, part)
	}
	_, err := decoder.Token()
	return err
}

// shortened cuts a long text.
func shortened(text string) string {
	if len(text) <= treeTextMax {
		return text
	}
	return strings.ToValidUTF8(text[:treeTextMax], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
}
