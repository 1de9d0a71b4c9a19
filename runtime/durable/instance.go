package durable

import (
	"errors"
	"fmt"
	"strings"
)

// InstanceIDBytesMax is the longest name of an instance, because the name is also the SQS
// MessageGroupId of the instance's events.
const InstanceIDBytesMax = 128

// ErrInstanceID is returned by ParseInstanceID when the text does not name an instance.
var ErrInstanceID = errors.New("not the name of an instance")

// InstanceID names one instance of a machine; as text, "machine/id".
type InstanceID struct {
	Machine string
	ID      string
}

// String returns the name as text: the MessageGroupId and the key of the item.
func (i InstanceID) String() string { return i.Machine + "/" + i.ID }

// ParseInstanceID reads the name of an instance: a machine's ID, one slash, and an ID of
// letters, digits and punctuation other than the slash.
func ParseInstanceID(text string) (InstanceID, error) {
	machine, id, ok := strings.Cut(text, "/")
	if !ok || machine == "" || id == "" || strings.Contains(id, "/") {
		return InstanceID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q", ErrInstanceID, text)
	}
	if len(text) > InstanceIDBytesMax {
		return InstanceID{}, fmt.Errorf("%w: expected at most %d bytes, got %d in %q", ErrInstanceID, InstanceIDBytesMax, len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return InstanceID{}, fmt.Errorf("%w: expected letters, digits and ASCII punctuation, got %q at byte %d of %q", ErrInstanceID, text[i:i+1], i, text)
	}
	return InstanceID{Machine: machine, ID: id}, nil
}
