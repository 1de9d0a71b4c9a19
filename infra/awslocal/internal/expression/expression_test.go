package expression

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// values holds the expression values of the tests.
var values = item(`{":n": {"N": "1"}, ":m": {"N": "2"}, ":s": {"S": "s"}, ":t": {"BOOL": true}, ":l": {"L": []}, ":ss": {"SS": ["a"]}, ":type": {"S": "N"}}`)

// item parses an item in wire form.
func item(wire string) attribute.Map {
	var m attribute.Map
	if err := m.UnmarshalJSON([]byte(wire)); err != nil {
		panic(err)
	}
	return m
}

// placeholders returns the placeholders of one request: the values, and the names #n and #dotted.
func placeholders(tb testing.TB) *Placeholders {
	tb.Helper()
	p, err := NewPlaceholders(map[string]string{"#n": "n", "#dotted": "a.b"}, values)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func wantMessage(t *testing.T, source string, err error, message string) {
	t.Helper()
	if err == nil || err.Error() != message {
		t.Errorf("%s:\nwant %s\ngot  %v", source, message, err)
	}
}

func TestCondition_matches(t *testing.T) {
	t.Parallel()
	stored := item(`{
		"n": {"N": "1"}, "s": {"S": "żółw"}, "b": {"B": "AAEC"}, "t": {"BOOL": true}, "nil": {"NULL": true}, "blank": {"S": ""},
		"ss": {"SS": ["a", "b"]}, "ns": {"NS": ["1", "2"]}, "bs": {"BS": ["AA=="]},
		"l": {"L": [{"N": "1"}, {"M": {"k": {"S": "deep"}}}]}, "m": {"M": {"k": {"N": "1.0"}, "l": {"L": []}}},
		"a.b": {"N": "1"}, "m2": {"M": {"k": {"N": "1"}, "l": {"L": []}}}
	}`)
	for source, expected := range map[string]bool{
		"n = :n":                             true,
		"n = :m":                             false,
		"n <> :m":                            true,
		"n < :m AND n <= :n AND n >= :n":     true,
		"n > :n":                             false,
		"n = :s":                             false,
		"n <> :s":                            true,
		"n < :s OR n > :s OR n = :s":         false,
		"nothing = :n":                       false,
		"nothing <> :n":                      true,
		"nothing < :n":                       false,
		"NOT nothing = :n":                   true,
		"m = m2":                             true,
		"m.k = l[0]":                         true,
		"l[1].k = s":                         false,
		"l[2] = :n":                          false,
		"n[0] = :n":                          false,
		"#n = :n":                            true,
		"#dotted = :n":                       true,
		"n BETWEEN :n AND :m":                true,
		"n BETWEEN :m AND :m":                false,
		"s BETWEEN :n AND :m":                false,
		"n IN (:m, :s)":                      false,
		"n IN (:m, :n)":                      true,
		"n in (m.k)":                         true,
		"nothing IN (:n, nothing2)":          false,
		"attribute_exists(n)":                true,
		"attribute_exists(m.k)":              true,
		"attribute_exists(m.x)":              false,
		"attribute_not_exists(nil)":          false,
		"attribute_not_exists(nothing)":      true,
		"attribute_type(n, :type)":           true,
		"attribute_type(s, :type)":           false,
		"attribute_type(nothing, :type)":     false,
		"begins_with(s, :s)":                 false,
		"begins_with(s, blank)":              true,
		"begins_with(n, s)":                  false,
		"contains(ss, :s)":                   false,
		"contains(ns, :n)":                   true,
		"contains(l, :n)":                    true,
		"contains(l, l[1])":                  true,
		"contains(s, blank)":                 true,
		"contains(n, :n)":                    false,
		"size(s) > :m":                       true,
		"size(ss) = :m":                      true,
		"size(l) = size(m)":                  true,
		"size(blank) < :n":                   true,
		"size(n) = :n":                       false,
		"size(nothing) >= :n":                false,
		"n = :n OR n = :m AND n = :m":        true,
		"(n = :n OR n = :m) AND n = :m":      false,
		"NOT n = :m AND n = :n":              true,
		"NOT (n = :n AND n = :m)":            true,
		"NOT NOT n = :n":                     true,
		"n = :n and Not n = :m or n = :m":    true,
		"(n) = (:n)":                         true,
		" n\t=\n:n ":                         true,
		"n=:n":                               true,
		"n BETWEEN :n AND :m AND s <> :s":    true,
		"size ( ss ) BETWEEN :n AND (:m)":    true,
		"(attribute_exists(n)) AND (t = t2)": false,
	} {
		condition, err := ParseCondition(source, placeholders(t))
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got := condition.Matches(stored); got != expected {
			t.Errorf("%s: want %v, got %v", source, expected, got)
		}
	}
}

func TestParseCondition_rejects(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("n = :n AND ", 200) + "n = :n"
	for source, message := range map[string]string{
		"":                           "The expression can not be empty;",
		"n":                          `Syntax error; token: "<EOF>", near: "n"`,
		"n =":                        `Syntax error; token: "<EOF>", near: "="`,
		"n = 1":                      `Syntax error; token: "1", near: "= 1"`,
		"n = :n n":                   `Syntax error; token: "n", near: ":n n"`,
		"n == :n":                    `Syntax error; token: "=", near: "== :n"`,
		"n ! :n":                     `Syntax error; token: "!", near: "n ! :n"`,
		"n = :n && s = :s":           `Syntax error; token: "&", near: ":n &&"`,
		"żółw = :n":                  `Syntax error; token: "ż", near: "żó"`,
		"_n = :n":                    `Syntax error; token: "_", near: "_n"`,
		"# = :n":                     `Syntax error; token: "#", near: "# ="`,
		"(n = :n":                    `Syntax error; token: "<EOF>", near: ":n"`,
		"n = :n)":                    `Syntax error; token: ")", near: ":n)"`,
		"n AND s = :s":               `Syntax error; token: "AND", near: "n AND s"`,
		"s = :s AND n":               `Syntax error; token: "<EOF>", near: "n"`,
		"NOT n":                      `Syntax error; token: "<EOF>", near: "n"`,
		"(n = :n) = :n":              `Syntax error; token: "=", near: ") = :n"`,
		"n = (n = :n)":               `Syntax error; token: "<EOF>", near: ")"`,
		"n IN :n":                    `Syntax error; token: ":n", near: "IN :n"`,
		"n IN ()":                    `Syntax error; token: ")", near: "()"`,
		"n BETWEEN :n, :m":           `Syntax error; token: ",", near: ":n, :m"`,
		"n[x] = :n":                  `Syntax error; token: "x", near: "[x]"`,
		"n. = :n":                    `Syntax error; token: "=", near: ". = :n"`,
		"and = :n":                   `Syntax error; token: "and", near: "and ="`,
		"size() = :n":                `Syntax error; token: ")", near: "() ="`,
		"((n = :n))":                 "The expression has redundant parentheses;",
		"n = ((:n))":                 "The expression has redundant parentheses;",
		"exists(n)":                  "Invalid function name; function: exists",
		"if_not_exists(n, :n) = :n":  "Invalid function name; function: if_not_exists",
		"Size(n) = :n":               "Invalid function name; function: Size",
		"size(n)":                    "The function is not allowed to be used this way in an expression; function: size",
		"n = :n AND size(n)":         "The function is not allowed to be used this way in an expression; function: size",
		"contains(n, :n) = :t":       "The function is not allowed to be used this way in an expression; function: contains",
		"size(contains(n, :n)) = :n": "The function is not allowed to be used this way in an expression; function: contains",
		"name = :n":                  "Attribute name is a reserved keyword; reserved keyword: name",
		"n.Status = :n":              "Attribute name is a reserved keyword; reserved keyword: Status",
		"#x = :n":                    "An expression attribute name used in the document path is not defined; attribute name: #x",
		"n = :x":                     "An expression attribute value used in expression is not defined; attribute value: :x",
		"attribute_exists(n, s)":     "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2",
		"attribute_exists(:n)":       "Operator or function requires a document path; operator or function: attribute_exists",
		"begins_with(n, :n)":         "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"attribute_type(n, :n)":      "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N",
		"attribute_type(n, :s)":      "Invalid attribute type name found; type: s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
		"size(:t) = :n":              "Incorrect operand type for operator or function; operator or function: size, operand type: BOOL",
		"n < :t":                     "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL",
		"n BETWEEN :m AND :n":        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}",
		"n BETWEEN :n AND :s":        "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:s}",
		"n = n":                      "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]",
		"contains(n.a[1], #n.a[1])":  "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [n, a, [1]]",
		many:                         "The expression contains too many operators; operator count: 401",
		strings.Repeat("n", 4097):    "Expression size has exceeded the maximum allowed size; expression size: 4097",
		"n IN (" + strings.Repeat(":n, ", 100) + ":n)": "The IN operator is provided with too many operands; number of operands: 101",
	} {
		_, err := ParseCondition(source, placeholders(t))
		wantMessage(t, source, err, message)
	}
}

func TestParseUpdate_rejects(t *testing.T) {
	t.Parallel()
	for source, message := range map[string]string{
		"":                                "The expression can not be empty;",
		" ":                               `Syntax error; token: "<EOF>", near: ""`,
		"n = :n":                          `Syntax error; token: "n", near: "n ="`,
		"SET":                             `Syntax error; token: "<EOF>", near: "SET"`,
		"SET n":                           `Syntax error; token: "<EOF>", near: "n"`,
		"SET n = 5":                       `Syntax error; token: "5", near: "= 5"`,
		"SET n = :n,":                     `Syntax error; token: "<EOF>", near: ","`,
		"SET n = :n + :m + :n":            `Syntax error; token: "+", near: ":m + :n"`,
		"SET n = :n * :m":                 `Syntax error; token: "*", near: ":n * :m"`,
		"SET n = (:n":                     `Syntax error; token: "<EOF>", near: ":n"`,
		"REMOVE n = :n":                   `Syntax error; token: "=", near: "n = :n"`,
		"ADD n n":                         `Syntax error; token: "n", near: "n n"`,
		"SET n = :n SET s = :s":           `The "SET" section can only be used once in an update expression;`,
		"SET size = :n":                   "Attribute name is a reserved keyword; reserved keyword: size",
		"SET n = value":                   "Attribute name is a reserved keyword; reserved keyword: value",
		"SET n = size(n)":                 "Invalid function name; function: size",
		"SET n = #x":                      "An expression attribute name used in the document path is not defined; attribute name: #x",
		"SET n = :x":                      "An expression attribute value used in expression is not defined; attribute value: :x",
		"SET n = :n, #n = :m":             "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]",
		"SET n.a = :n REMOVE n.a.b[1]":    "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n, a], path two: [n, a, b, [1]]",
		"SET n.a = :n, n[0] = :m":         "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [n, a], path two: [n, [0]]",
		"SET n = :s + :n":                 "Incorrect operand type for operator or function; operator or function: +, operand type: S",
		"SET n = list_append(n, :n)":      "Incorrect operand type for operator or function; operator or function: list_append, operand type: N",
		"SET n = list_append(n)":          "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 1",
		"SET n = if_not_exists(:n, :n)":   "Operator or function requires a document path; operator or function: if_not_exists",
		"ADD n :s":                        "Incorrect operand type for operator or function; operator: ADD, operand type: STRING, typeset: ALLOWED_FOR_ADD_OPERAND",
		"DELETE n :n":                     "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER, typeset: ALLOWED_FOR_DELETE_OPERAND",
		"SET n = list_append(:l, :l) + n": "Incorrect operand type for operator or function; operator or function: +, operand type: L",
	} {
		_, err := ParseUpdate(source, placeholders(t))
		wantMessage(t, source, err, message)
	}
}

func TestParseProjection_rejects(t *testing.T) {
	t.Parallel()
	for source, message := range map[string]string{
		"":          "The expression can not be empty;",
		"n,":        `Syntax error; token: "<EOF>", near: ","`,
		"n s":       `Syntax error; token: "s", near: "n s"`,
		":n":        `Syntax error; token: ":n", near: ":n"`,
		"a, key":    "Attribute name is a reserved keyword; reserved keyword: key",
		"#x":        "An expression attribute name used in the document path is not defined; attribute name: #x",
		"n, #n":     "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]",
		"n.a, n[1]": "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [n, a], path two: [n, [1]]",
	} {
		_, err := ParseProjection(source, placeholders(t))
		wantMessage(t, source, err, message)
	}
}

func TestPlaceholders_reject(t *testing.T) {
	t.Parallel()
	_, err := NewPlaceholders(map[string]string{}, nil)
	wantMessage(t, "no names", err, "ExpressionAttributeNames must not be empty")
	_, err = NewPlaceholders(nil, attribute.Map{})
	wantMessage(t, "no values", err, "ExpressionAttributeValues must not be empty")
	_, err = NewPlaceholders(map[string]string{"n": "n"}, nil)
	wantMessage(t, "name without #", err, `ExpressionAttributeNames contains invalid key: Syntax error; key: "n"`)
	_, err = NewPlaceholders(map[string]string{"#a-b": "n"}, nil)
	wantMessage(t, "name with -", err, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#a-b"`)
	_, err = NewPlaceholders(nil, item(`{"": {"S": "s"}}`))
	wantMessage(t, "empty value", err, `ExpressionAttributeValues contains invalid key: Syntax error; key: ""`)
	p := placeholders(t)
	if _, err := ParseCondition("#n = :n", p); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, "unused", p.CheckUsed(), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#dotted}")
}

func TestReserved_words_are_complete(t *testing.T) {
	t.Parallel()
	if len(reserved) != 573 {
		t.Errorf("reserved words: want 573, got %d", len(reserved))
	}
	for _, word := range []string{"abort", "Name", "STATUS", "ttl", "zone", "value", "url"} {
		if !isReserved(word) {
			t.Errorf("%s: want it reserved", word)
		}
	}
	for _, word := range []string{"", "id", "version", "instance", "revision"} {
		if isReserved(word) {
			t.Errorf("%s: want it free", word)
		}
	}
}
