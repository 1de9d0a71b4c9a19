// Package sqsquery translates between the two protocols of SQS: the AWS query protocol of older SDKs and CLIs (form
// input, XML output) and the JSON of the SQS model. The names follow the API Reference, 2012-11-05.
package sqsquery

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// protocolParameters belong to the protocol or to the older signature version, not to an operation.
var protocolParameters = []string{
	"Action", "Version", "AWSAccessKeyId", "Expires", "SecurityToken", "Signature", "SignatureMethod",
	"SignatureVersion", "Timestamp",
}

// Request parses a request in the query protocol from its form and the path of its URL. If the form has no QueueUrl,
// the path can be the path of the queue's URL. Request returns the operation and its input as JSON.
func Request(path string, form []byte) (string, []byte, *wire.Error) {
	values, err := url.ParseQuery(string(form))
	if err != nil {
		return "", nil, wire.Errorf("MalformedQueryString", "expected a form such as Action=SendMessage&...: %v", err)
	}
	operation := values.Get("Action")
	if operation == "" {
		return "", nil, wire.Errorf("MissingAction", "expected the parameter Action, such as Action=SendMessage")
	}
	if strings.Count(path, "/") == 2 && !values.Has("QueueUrl") {
		values.Set("QueueUrl", path)
	}

	root := &node{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(protocolParameters, key) && !strings.HasPrefix(key, "X-Amz-") {
			root.put(key, values.Get(key))
		}
	}
	input, refused := input.read("", root)
	if refused != nil {
		return "", nil, refused
	}
	body, err := json.Marshal(input)
	if err != nil {
		return "", nil, wire.Errorf("InvalidParameterValue", "the parameters of %s: %v", operation, err)
	}
	return operation, body, nil
}

// node is a node in the tree of parameter names. The parameter "Tag.1.Key" is stored at the path Tag, 1, Key.
type node struct {
	value    string
	children map[string]*node
}

func (n *node) put(key, value string) {
	for part := range strings.SplitSeq(key, ".") {
		child := n.children[part]
		if child == nil {
			child = &node{}
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			n.children[part] = child
		}
		n = child
	}
	n.value = value
}

// shape converts a node to a value for encoding/json. name is the parameter's name, for errors.
type shape interface {
	read(name string, n *node) (any, *wire.Error)
}

type (
	text   struct{}
	number struct{}
	// list reads children named 1, 2, 3, ...
	list struct{ of shape }
	// dict reads children named 1, 2, 3, ... Each has one child for the key and one for the value.
	dict struct {
		key, value string
		of         shape
	}
	// members reads children by name. The JSON name of a member may differ.
	members map[string]member
	member  struct {
		json string
		shape
	}
)

func (text) read(_ string, n *node) (any, *wire.Error) { return n.value, nil }

func (number) read(name string, n *node) (any, *wire.Error) {
	i, err := strconv.Atoi(n.value)
	if err != nil {
		return nil, wire.Errorf("InvalidParameterValue",
			"Value %s for parameter %s is invalid. Reason: Must be an integer.", n.value, name)
	}
	return i, nil
}

func (l list) read(name string, n *node) (any, *wire.Error) {
	values := []any{}
	for _, i := range slices.SortedFunc(maps.Keys(n.children), byNumber) {
		value, err := l.of.read(name+"."+i, n.children[i])
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func (d dict) read(name string, n *node) (any, *wire.Error) {
	values := map[string]any{}
	for _, i := range slices.SortedFunc(maps.Keys(n.children), byNumber) {
		item := n.children[i]
		key, value := item.children[d.key], item.children[d.value]
		if key == nil || value == nil || len(item.children) != 2 {
			return nil, wire.Errorf("InvalidParameterValue", "expected the parameters %[1]s.%[2]s.%[3]s and "+
				"%[1]s.%[2]s.%[4]s, and no others that start with %[1]s.%[2]s", name, i, d.key, d.value)
		}
		read, err := d.of.read(name+"."+i+"."+d.value, value)
		if err != nil {
			return nil, err
		}
		values[key.value] = read
	}
	return values, nil
}

func (m members) read(name string, n *node) (any, *wire.Error) {
	values := map[string]any{}
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		full := strings.TrimPrefix(name+"."+child, ".")
		known, ok := m[child]
		if !ok {
			return nil, wire.Errorf("InvalidParameterValue",
				"awslocal does not support the parameter %q here; leave it out.", full)
		}
		value, err := known.read(full, n.children[child])
		if err != nil {
			return nil, err
		}
		values[known.json] = value
	}
	return values, nil
}

func byNumber(a, b string) int {
	i, _ := strconv.Atoi(a)
	j, _ := strconv.Atoi(b)
	if i != j {
		return i - j
	}
	return strings.Compare(a, b)
}
