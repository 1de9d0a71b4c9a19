package instances

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// idBytesMax limits the name of an instance, because SQS limits a MessageGroupId to this length.
const idBytesMax = 128

// ErrID is returned by ParseID when the text does not name an instance.
var ErrID = errors.New("not the name of an instance")

// ID names one instance of a machine. Its text form is "machine/id".
type ID struct {
	Machine string
	ID      string
}

// String returns the name as text: the MessageGroupId and the key of the item.
func (i ID) String() string { return i.Machine + "/" + i.ID }

// ParseID parses the name of an instance: a machine's ID, one slash, and an ID of ASCII letters, digits
// and punctuation other than the slash. A name has at most 128 bytes. Errors wrap ErrID.
func ParseID(text string) (ID, error) {
	machine, id, ok := strings.Cut(text, "/")
	if machine != "" && strings.Contains(strings.Trim(id, "/"), "/") {
		return ID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q; write the ID without a slash, such as %s", ErrID, text, strings.ReplaceAll(strings.Trim(id, "/"), "/", "-"))
	}
	if !ok || machine == "" || id == "" || strings.Contains(id, "/") {
		return ID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q", ErrID, text)
	}
	if len(text) > idBytesMax {
		return ID{}, fmt.Errorf("%w: expected at most %d bytes, got %d in %q", ErrID, idBytesMax, len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		_, size := utf8.DecodeRuneInString(text[i:])
		return ID{}, fmt.Errorf("%w: expected ASCII letters, digits and punctuation, got %q at byte %d of %q", ErrID, text[i:i+size], i, text)
	}
	return ID{Machine: machine, ID: id}, nil
}

// ChildName returns the name of the parent's child with the given key. createdAt is when the parent was created. The name
// is a readable prefix and a hash. It never changes, and no other child has it.
func ChildName(parent ID, createdAt time.Time, key, machine string) ID {
	hash := sha256.Sum256(fmt.Appendf(nil, "%s@%d/%s", parent, createdAt.UnixMilli(), key))
	suffix := "-" + hex.EncodeToString(hash[:16])
	readable := strings.ReplaceAll(parent.String(), "/", "-") + "-" + key
	left := max(idBytesMax-len(machine)-len("/")-len(suffix), 0)
	return ID{Machine: machine, ID: readable[:min(len(readable), left)] + suffix}
}
