package attribute

import (
	"cmp"
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// Limits of a number: the DynamoDB developer guide, "Supported data types", promises 38
// digits of precision and magnitudes from 1E-130 to 9.99...E+125.
const (
	NumberDigitsMax   = 38
	NumberExponentMax = 125
	NumberExponentMin = -130
)

// Errors of ParseNumber, Add and Sub, in DynamoDB's words.
var (
	ErrNumberOverflow  = errors.New("Number overflow. Attempting to store a number with magnitude larger than supported range")
	ErrNumberUnderflow = errors.New("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	ErrNumberPrecision = errors.New("Attempting to store more than 38 significant digits in a Number")
)

// Number is a decimal number, normalised as in DynamoDB: 1, 1.0, +1 and 1e0 are the same value. The zero value is 0.
type Number struct {
	negative bool
	// exponent is the exponent of the first digit: 123.4 is 1.234 × 10^2.
	exponent int16
	// digits are the significant digits. Invariant: no leading and no trailing zero; empty for the number 0.
	digits string
}

// NewNumber returns i as a Number.
func NewNumber(i int64) Number {
	n, err := ParseNumber(strconv.FormatInt(i, 10))
	if err != nil {
		panic(err) // 19 digits are within every limit
	}
	return n
}

// ParseNumber parses a decimal number with an optional exponent.
func ParseNumber(text string) (Number, error) {
	if text == "" {
		return Number{}, errors.New("The parameter cannot be converted to a numeric value")
	}
	mantissa, exponent, ok := cutExponent(text)
	negative := strings.HasPrefix(mantissa, "-")
	if negative || strings.HasPrefix(mantissa, "+") {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Number{}, errors.New("The parameter cannot be converted to a numeric value: " + text)
	}
	significant := strings.TrimLeft(digits, "0")
	exponent += len(whole) - 1 - (len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")
	switch {
	case significant == "":
		return Number{}, nil
	case exponent > NumberExponentMax:
		return Number{}, ErrNumberOverflow
	case exponent < NumberExponentMin:
		return Number{}, ErrNumberUnderflow
	case len(significant) > NumberDigitsMax:
		return Number{}, ErrNumberPrecision
	}
	return Number{negative: negative, exponent: int16(exponent), digits: significant}, nil
}

// cutExponent separates the mantissa from the exponent. An exponent that overflows an int32 becomes the nearest int32,
// which is still out of range for a Number.
func cutExponent(text string) (mantissa string, exponent int, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, true
	}
	parsed, err := strconv.ParseInt(text[at+1:], 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // ParseInt returned the nearest bound
	}
	return text[:at], int(parsed), err == nil
}

// String returns the number in plain decimal notation, as DynamoDB does.
func (n Number) String() string {
	if n.digits == "" {
		return "0"
	}
	sign := ""
	if n.negative {
		sign = "-"
	}
	whole := int(n.exponent) + 1 // digits before the decimal point
	switch {
	case whole <= 0:
		return sign + "0." + strings.Repeat("0", -whole) + n.digits
	case whole >= len(n.digits):
		return sign + n.digits + strings.Repeat("0", whole-len(n.digits))
	}
	return sign + n.digits[:whole] + "." + n.digits[whole:]
}

// Int64 returns the number as an integer. ok is false if it has a fraction or is out of range.
func (n Number) Int64() (i int64, ok bool) {
	if n.exponent > 18 || int(n.exponent)+1 < len(n.digits) {
		return 0, false
	}
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return i, err == nil
}

// Compare orders numbers by value: -1, 0 or +1.
func (n Number) Compare(other Number) int {
	if n.sign() != other.sign() {
		return cmp.Compare(n.sign(), other.sign())
	}
	byMagnitude := int(n.exponent) - int(other.exponent)
	if byMagnitude == 0 {
		byMagnitude = strings.Compare(n.digits, other.digits)
	}
	switch {
	case byMagnitude == 0:
		return 0
	case (byMagnitude < 0) != n.negative:
		return -1
	}
	return 1
}

// sign returns 0 for negative numbers, 1 for 0 and 2 for positive ones.
func (n Number) sign() int {
	switch {
	case n.negative:
		return 0
	case n.digits == "":
		return 1
	}
	return 2
}

// Add returns n + other, exactly. It fails if the sum is out of range or has more than 38 significant digits.
func (n Number) Add(other Number) (Number, error) {
	scale := min(n.scale(), other.scale())
	sum := new(big.Int).Add(n.scaled(scale), other.scaled(scale))
	return ParseNumber(sum.String() + "e" + strconv.Itoa(scale))
}

// Sub returns n - other under the rules of Add.
func (n Number) Sub(other Number) (Number, error) {
	if other.digits != "" {
		other.negative = !other.negative
	}
	return n.Add(other)
}

// scale returns the power of ten of the last digit.
func (n Number) scale() int {
	return int(n.exponent) + 1 - len(n.digits)
}

// scaled returns n × 10^-scale, for a scale of at most n.scale().
func (n Number) scaled(scale int) *big.Int {
	if n.digits == "" {
		return new(big.Int)
	}
	i, _ := new(big.Int).SetString(n.digits+strings.Repeat("0", n.scale()-scale), 10)
	if n.negative {
		i.Neg(i)
	}
	return i
}
