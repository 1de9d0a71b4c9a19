package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Encoder encodes the value of a record as a sequence of parts. The zero value is ready to use.
type Encoder struct{ value []byte }

// Value returns the encoded value, never nil. Do not write to the Encoder after this call.
func (e *Encoder) Value() []byte {
	if e.value == nil {
		return []byte{}
	}
	return e.value
}

// Uint writes a number.
func (e *Encoder) Uint(n uint64) { e.value = binary.AppendUvarint(e.value, n) }

// Bool writes a boolean.
func (e *Encoder) Bool(b bool) {
	n := uint64(0)
	if b {
		n = 1
	}
	e.Uint(n)
}

// String writes text or bytes.
func (e *Encoder) String(s string) {
	e.Uint(uint64(len(s)))
	e.value = append(e.value, s...)
}

// Strings writes a map in key order.
func (e *Encoder) Strings(m map[string]string) {
	e.Uint(uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e.String(key)
		e.String(m[key])
	}
}

// Time writes the zero time or a time between the years 1678 and 2262, in nanoseconds and without its zone.
func (e *Encoder) Time(t time.Time) {
	if t.IsZero() {
		e.Uint(0)
		return
	}
	nanoseconds := t.UnixNano()
	e.Uint(uint64(nanoseconds<<1^nanoseconds>>63) + 1)
}

// Decoder decodes the output of an Encoder. After a failure its methods return zero values, and Close returns the
// error.
type Decoder struct {
	rest   []byte
	failed bool
}

// NewDecoder returns a Decoder of a record's value. It does not retain value.
func NewDecoder(value []byte) *Decoder { return &Decoder{rest: value} }

// Close returns an error if decoding failed or did not reach the end of the value.
func (d *Decoder) Close() error {
	switch {
	case d.failed:
		return errors.New("its value is truncated or was not written by this build")
	case len(d.rest) > 0:
		return fmt.Errorf("its value is %d bytes longer than expected", len(d.rest))
	}
	return nil
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	n, length := binary.Uvarint(d.rest)
	if length <= 0 {
		d.rest, d.failed = nil, true
		return 0
	}
	d.rest = d.rest[length:]
	return n
}

// Bool reads a boolean.
func (d *Decoder) Bool() bool { return d.Uint() != 0 }

// String reads text or bytes.
func (d *Decoder) String() string {
	length := d.Uint()
	if length > uint64(len(d.rest)) {
		d.rest, d.failed = nil, true
		return ""
	}
	s := string(d.rest[:length])
	d.rest = d.rest[length:]
	return s
}

// Len reads the number of the following parts. Each part has at least one byte.
func (d *Decoder) Len() int {
	length := d.Uint()
	if length > uint64(len(d.rest)) {
		d.rest, d.failed = nil, true
		return 0
	}
	return int(length)
}

// Strings reads a map. It returns nil for an empty map.
func (d *Decoder) Strings() map[string]string {
	var m map[string]string
	for range d.Len() {
		if m == nil {
			m = make(map[string]string)
		}
		key := d.String()
		m[key] = d.String()
	}
	return m
}

// Time reads a time, in UTC.
func (d *Decoder) Time() time.Time {
	n := d.Uint()
	if n == 0 {
		return time.Time{}
	}
	n--
	return time.Unix(0, int64(n>>1)^-int64(n&1)).UTC()
}
