package dynamostore

import (
	"fmt"
	"strconv"
	"strings"
)

// The numbers that DynamoDB holds:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
const (
	NumberDigitsMax   = 38
	NumberExponentMax = 125
	NumberExponentMin = -130
)

// NumberError is returned by Store.Commit when a record holds a number that DynamoDB cannot:
// one of more than 38 significant digits, or out of its range. Trying again does not help.
type NumberError struct {
	// Path leads to the number within the item, as in "context.items[2].price".
	Path   string
	Number string
}

// Error names the number, its place and what would fit.
func (e *NumberError) Error() string {
	return fmt.Sprintf("%s: DynamoDB holds numbers of at most %d digits between 1e%d and 1e%d, got %s: keep it as a string",
		e.Path, NumberDigitsMax, NumberExponentMin, NumberExponentMax+1, e.Number)
}

// storable returns the spelling under which DynamoDB takes a JSON number, and whether there is
// one. Zero is spelled 0, whatever its sign and exponent.
func storable(number string) (spelling string, ok bool) {
	digits, exponent := significant(number)
	if digits == 0 {
		return "0", true
	}
	return number, digits <= NumberDigitsMax && exponent >= NumberExponentMin && exponent <= NumberExponentMax
}

// significant returns how many significant digits a JSON number has, leading and trailing
// zeros apart, and the power of ten of the first; 0 has none.
func significant(number string) (digits, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	if power != "" {
		// Out of range, ParseInt returns the nearest bound: out of DynamoDB's range as well.
		parsed, _ := strconv.ParseInt(power, 10, 32)
		exponent = int(parsed)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	trimmed := strings.TrimLeft(all, "0")
	if trimmed == "" {
		return 0, 0
	}
	exponent += len(whole) - 1 - (len(all) - len(trimmed))
	return len(strings.TrimRight(trimmed, "0")), exponent
}
