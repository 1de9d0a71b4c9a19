package sqs

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// messageAttributesMax is the maximum number of attributes of a message.
const messageAttributesMax = 10

const traceHeader = "AWSTraceHeader"

var (
	attributeNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	attributeTypePattern = regexp.MustCompile(`^(String|Number|Binary)(\.[A-Za-z0-9_.-]+)?$`)
	reservedNamePattern  = regexp.MustCompile(`(?i)^(aws|amazon)\.`)
)

// checkAttributes returns an error if message attributes are invalid (SQS Developer Guide, "Amazon SQS message
// metadata").
func checkAttributes(attributes map[string]MessageAttribute) *wire.Error {
	if len(attributes) > messageAttributesMax {
		return wire.Errorf("InvalidParameterValue", "Number of message attributes [%d] exceeds the "+
			"allowed maximum [%d].", len(attributes), messageAttributesMax)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if len(name) > 256 || !attributeNamePattern.MatchString(name) || reservedNamePattern.MatchString(name) {
			return wire.Errorf("InvalidParameterValue", "The message attribute name %q is invalid: it can "+
				"contain A-Z, a-z, 0-9, underscore, hyphen and single periods inside, has up to 256 "+
				"characters and does not start with AWS. or Amazon.", name)
		}
		if err := checkAttribute(name, attributes[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkAttribute(name string, a MessageAttribute) *wire.Error {
	if len(a.StringListValues)+len(a.BinaryListValues) > 0 {
		return wire.Errorf("UnsupportedOperation", "Message attribute list values in the message "+
			"attribute %q are not supported; use StringValue or BinaryValue.", name)
	}
	if len(a.DataType) > 256 || !attributeTypePattern.MatchString(a.DataType) {
		return wire.Errorf("InvalidParameterValue", "The message attribute %q has an invalid message "+
			"attribute type %q; the set of supported type prefixes is Binary, Number, and String.", name, a.DataType)
	}
	if a.binary() {
		if len(a.BinaryValue) == 0 || a.StringValue != nil {
			return wire.Errorf("InvalidParameterValue", "The message attribute %q of type %s must have a "+
				"non-empty BinaryValue and no StringValue.", name, a.DataType)
		}
		return nil
	}
	if a.StringValue == nil || *a.StringValue == "" || a.BinaryValue != nil {
		return wire.Errorf("InvalidParameterValue", "The message attribute %q of type %s must have a "+
			"non-empty StringValue and no BinaryValue.", name, a.DataType)
	}
	return nil
}

// checkSystemAttributes returns an error if message system attributes are invalid. Only the X-Ray trace header is
// allowed.
func checkSystemAttributes(attributes map[string]MessageAttribute) *wire.Error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if name != traceHeader {
			return wire.Errorf("InvalidParameterValue", "Message system attribute name %q is invalid; "+
				"the only one that can be sent is %s.", name, traceHeader)
		}
		if err := checkAttribute(name, attributes[name]); err != nil {
			return err
		}
		if attributes[name].DataType != "String" {
			return wire.Errorf("InvalidParameterValue", "The message system attribute %s must have the "+
				"type String, not %s.", name, attributes[name].DataType)
		}
	}
	return nil
}

func traceOf(in *Message) string {
	if a, ok := in.MessageSystemAttributes[traceHeader]; ok {
		return *a.StringValue
	}
	return ""
}

// binary reports whether the value is in BinaryValue rather than in StringValue.
func (a *MessageAttribute) binary() bool { return strings.HasPrefix(a.DataType, "Binary") }

// value returns the bytes of the attribute's value.
func (a *MessageAttribute) value() []byte {
	if a.binary() {
		return a.BinaryValue
	}
	if a.StringValue == nil {
		return nil
	}
	return []byte(*a.StringValue)
}

// messageBytes returns the size that counts towards MessageBytesMax. System attributes do not count.
func messageBytes(in *Message) int {
	size := len(in.MessageBody)
	for name, a := range in.MessageAttributes {
		size += len(name) + len(a.DataType) + len(a.value())
	}
	return size
}

// attributesMD5 returns the digest that clients verify. It covers all attributes, sorted by name. Each name, type and
// value is prefixed with its length (SQS Developer Guide, "Calculating the MD5 message digest for message attributes").
// Without attributes, the digest is empty.
func attributesMD5(attributes map[string]MessageAttribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var text []byte
	part := func(b []byte) {
		text = binary.BigEndian.AppendUint32(text, uint32(len(b)))
		text = append(text, b...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		part([]byte(name))
		part([]byte(a.DataType))
		kind := byte(1)
		if a.binary() {
			kind = 2
		}
		text = append(text, kind)
		part(a.value())
	}
	sum := md5.Sum(text)
	return hex.EncodeToString(sum[:])
}

// chosenAttributes returns the requested attributes. An element of names is the name of an attribute, a prefix such as
// "trace.*", or "All" or ".*" for all attributes.
func chosenAttributes(attributes map[string]MessageAttribute, names []string) map[string]MessageAttribute {
	var chosen map[string]MessageAttribute
	for name, a := range attributes {
		asked := slices.ContainsFunc(names, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, ".*")
			return pattern == "All" || pattern == name || open && strings.HasPrefix(name, prefix)
		})
		if asked {
			if chosen == nil {
				chosen = make(map[string]MessageAttribute)
			}
			chosen[name] = a
		}
	}
	return chosen
}
