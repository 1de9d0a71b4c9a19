// Package exactjson decodes and compares JSON without rounding its numbers. A float64 cannot represent every integer
// above 2^53.
package exactjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

// Unmarshal is json.Unmarshal, except that it decodes numbers into interface values as json.Number.
func Unmarshal(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("expected one JSON value, got more text after it")
	}
	return nil
}

// Equal reports whether two values that Unmarshal decoded are equal. 1, 1.0 and 10e-1 are equal.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && Compare(a, b) == 0
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	default:
		return reflect.DeepEqual(a, b)
	}
}

// Compare compares two numbers exactly, as cmp.Compare does. Its cost depends only on the length of the texts: it never
// expands 1e999999999.
func Compare(a, b json.Number) int {
	x, y := parse(a), parse(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	return x.sign * cmp.Or(x.exponent.Cmp(y.exponent), strings.Compare(x.digits, y.digits))
}

// decimal is the number sign × 0.digits × 10^exponent. The digits begin and end with a digit other than 0. If sign is 0,
// the number is 0.
type decimal struct {
	sign     int
	digits   string
	exponent *big.Int
}

func parse(number json.Number) decimal {
	text, isNegative := strings.CutPrefix(string(number), "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d := decimal{sign: 1, digits: strings.TrimRight(digits, "0"), exponent: new(big.Int)}
	switch {
	case d.digits == "":
		return decimal{}
	case isNegative:
		d.sign = -1
	}
	if power != "" {
		d.exponent.SetString(power, 10)
	}
	d.exponent.Add(d.exponent, big.NewInt(int64(len(digits)-len(fraction))))
	return d
}
