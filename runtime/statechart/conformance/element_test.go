package conformance_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is an XML element as a data model sees it, without namespaces and comments.
type element struct {
	name     string
	attrs    map[string]string
	children []*element
	// text is the character data directly inside the element. `source` is everything between its tags. `outer` includes
	// the tags.
	text, source, outer string
	line, column        int
}

func parseXML(document string) (*element, error) {
	decoder := xml.NewDecoder(strings.NewReader(document))
	var open []*element
	var starts, insides []int64 // offsets of the open elements and of their contents
	for {
		before := decoder.InputOffset()
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading XML: expected an element, got %q", document)
		}
		if err != nil {
			return nil, fmt.Errorf("reading XML: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			e.line, e.column = decoder.InputPos()
			for _, attr := range token.Attr {
				e.attrs[attr.Name.Local] = attr.Value
			}
			if len(open) > 0 {
				parent := open[len(open)-1]
				parent.children = append(parent.children, e)
			}
			open, starts, insides = append(open, e), append(starts, before), append(insides, decoder.InputOffset())
		case xml.EndElement:
			last := len(open) - 1
			e := open[last]
			e.source, e.outer = document[insides[last]:max(before, insides[last])], document[starts[last]:decoder.InputOffset()]
			if open, starts, insides = open[:last], starts[:last], insides[:last]; last == 0 {
				return e, nil
			}
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(bytes.Clone(token))
			}
		}
	}
}

func (e *element) has(attr string) bool {
	_, ok := e.attrs[attr]
	return ok
}

// all returns all children with the name.
func (e *element) all(name string) []*element {
	var found []*element
	for _, child := range e.children {
		if child.name == name {
			found = append(found, child)
		}
	}
	return found
}

// one returns the first child with the name, or nil.
func (e *element) one(name string) *element {
	if found := e.all(name); len(found) > 0 {
		return found[0]
	}
	return nil
}

// domNode is the view of an element for the data model, with DOM names.
type domNode struct{ element *element }

// GetElementsByTagName returns the descendants with the name in document order.
func (n *domNode) GetElementsByTagName(name string) []*domNode {
	var found []*domNode
	for _, child := range n.element.children {
		node := &domNode{child}
		if child.name == name {
			found = append(found, node)
		}
		found = append(found, node.GetElementsByTagName(name)...)
	}
	return found
}

// GetAttribute returns the value of an attribute, or "".
func (n *domNode) GetAttribute(name string) string { return n.element.attrs[name] }
