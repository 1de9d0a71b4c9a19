package dynamostore

import (
	"fmt"
	"strconv"
	"strings"
)

// DynamoDB's number range:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
const (
	NumberDigitsMax   = 38
	NumberExponentMax = 125
	NumberExponentMin = -130
)

// NumberError is returned by Store.Commit if a record has a number that DynamoDB cannot hold: more than 38
// significant digits, or out of range. A retry does not help.
type NumberError struct {
	// Path is the number's path within the item, as in "context.items[2].price".
	Path   string
	Number string
}

// Error names the path, the limits and the number.
func (e *NumberError) Error() string {
	return fmt.Sprintf("%s: DynamoDB holds numbers of at most %d digits between 1e%d and 1e%d, got %s: keep it as a string",
		e.Path, NumberDigitsMax, NumberExponentMin, NumberExponentMax+1, e.Number)
}

// storable returns a JSON number in a form that DynamoDB accepts, and whether such a form exists. Zero becomes 0,
// whatever its sign and exponent.
func storable(number string) (spelling string, ok bool) {
	digits, exponent := significant(number)
	if digits == 0 {
		return "0", true
	}
	return number, digits <= NumberDigitsMax && exponent >= NumberExponentMin && exponent <= NumberExponentMax
}

// significant returns the number of significant digits of a JSON number, and the power of ten of the first of these
// digits. Leading and trailing zeros do not count. Zero has no digits.
func significant(number string) (digits, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	if power != "" {
		// If the exponent is out of range, ParseInt returns the nearest bound, which is out of DynamoDB's range too.
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
