package asl_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

const choiceInput = `{"s": "b", "path": "log-2026*.txt", "n": 5, "f": 5.0, "big": 9007199254740993, "t": true, "null": null,
	"at": "2026-01-02T03:04:05Z", "zone": "2026-01-02T04:04:05.000+01:00", "list": [1, 2], "obj": {"x": 1}}`

// choose returns "Yes" if a rule with these fields is true for choiceInput, "No" if it is false, or the failure.
func choose(t *testing.T, rule string) string {
	t.Helper()
	definition := `{"StartAt": "C", "States": {
		"C": {"Type": "Choice", "Choices": [` + rule[:len(rule)-1] + `, "Next": "Yes"}], "Default": "No"},
		"Yes": {"Type": "Succeed"}, "No": {"Type": "Succeed"}}}`
	m, findings := asl.Parse(definition)
	if len(findings) > 0 {
		t.Fatalf("%s: %s", rule, findings)
	}
	input, err := document.Decode(choiceInput)
	if err != nil {
		t.Fatal(err)
	}
	next, failure := m.All["C"].Choose(asl.Scope{Data: input, Context: map[string]any{"State": map[string]any{"Name": "C"}}})
	if failure != nil {
		return failure.Error + ": " + failure.Cause
	}
	return next
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rule string
		want bool
	}{
		{`{"Variable": "$.s", "StringEquals": "b"}`, true},
		{`{"Variable": "$.s", "StringEquals": "B"}`, false},
		{`{"Variable": "$.n", "StringEquals": "5"}`, false},
		{`{"Variable": "$.s", "StringEqualsPath": "$.s"}`, true},
		{`{"Variable": "$.s", "StringEqualsPath": "$.n"}`, false},
		{`{"Variable": "$$.State.Name", "StringEquals": "C"}`, true},
		{`{"Variable": "$.s", "StringLessThan": "c"}`, true},
		{`{"Variable": "$.s", "StringLessThan": "b"}`, false},
		{`{"Variable": "$.s", "StringLessThanEquals": "b"}`, true},
		{`{"Variable": "$.s", "StringGreaterThan": "a"}`, true},
		{`{"Variable": "$.s", "StringGreaterThan": "b"}`, false},
		{`{"Variable": "$.s", "StringGreaterThanEquals": "b"}`, true},
		{`{"Variable": "$.s", "StringGreaterThanEqualsPath": "$.path"}`, false},
		{`{"Variable": "$.path", "StringMatches": "log-*.txt"}`, true},
		{`{"Variable": "$.path", "StringMatches": "log-*"}`, true},
		{`{"Variable": "$.path", "StringMatches": "*"}`, true},
		{`{"Variable": "$.path", "StringMatches": "*2*2*"}`, true},
		{`{"Variable": "$.path", "StringMatches": "log-*\\*.txt"}`, true},
		{`{"Variable": "$.path", "StringMatches": "log-*\\\\.txt"}`, false},
		{`{"Variable": "$.path", "StringMatches": "log-2026*.txt.txt"}`, false},
		{`{"Variable": "$.s", "StringMatches": "b*b"}`, false},
		{`{"Variable": "$.n", "StringMatches": "*"}`, false},
		{`{"Variable": "$.n", "NumericEquals": 5.0}`, true},
		{`{"Variable": "$.f", "NumericEquals": 5}`, true},
		{`{"Variable": "$.big", "NumericEquals": 9007199254740992}`, false},
		{`{"Variable": "$.n", "NumericEqualsPath": "$.f"}`, true},
		{`{"Variable": "$.n", "NumericLessThan": 5.5}`, true},
		{`{"Variable": "$.n", "NumericLessThanEquals": 5}`, true},
		{`{"Variable": "$.n", "NumericGreaterThan": 5}`, false},
		{`{"Variable": "$.n", "NumericGreaterThanPath": "$.list[0]"}`, true},
		{`{"Variable": "$.n", "NumericGreaterThanEquals": 5}`, true},
		{`{"Variable": "$.s", "NumericEquals": 5}`, false},
		{`{"Variable": "$.t", "BooleanEquals": true}`, true},
		{`{"Variable": "$.t", "BooleanEquals": false}`, false},
		{`{"Variable": "$.t", "BooleanEqualsPath": "$.t"}`, true},
		{`{"Variable": "$.null", "BooleanEquals": false}`, false},
		{`{"Variable": "$.at", "TimestampEquals": "2026-01-02T03:04:05Z"}`, true},
		{`{"Variable": "$.at", "TimestampEqualsPath": "$.zone"}`, true},
		{`{"Variable": "$.at", "TimestampLessThan": "2026-01-02T03:04:05.001Z"}`, true},
		{`{"Variable": "$.at", "TimestampLessThanEqualsPath": "$.zone"}`, true},
		{`{"Variable": "$.at", "TimestampGreaterThan": "2026-01-02T03:04:05Z"}`, false},
		{`{"Variable": "$.at", "TimestampGreaterThanEquals": "2026-01-02T03:04:05Z"}`, true},
		{`{"Variable": "$.s", "TimestampEquals": "2026-01-02T03:04:05Z"}`, false},
		{`{"Variable": "$.null", "IsNull": true}`, true},
		{`{"Variable": "$.n", "IsNull": false}`, true},
		{`{"Variable": "$.nope", "IsPresent": false}`, true},
		{`{"Variable": "$.nope.deeper", "IsPresent": true}`, false},
		{`{"Variable": "$.null", "IsPresent": true}`, true},
		{`{"Variable": "$.n", "IsNumeric": true}`, true},
		{`{"Variable": "$.s", "IsNumeric": true}`, false},
		{`{"Variable": "$.s", "IsString": true}`, true},
		{`{"Variable": "$.n", "IsString": false}`, true},
		{`{"Variable": "$.t", "IsBoolean": true}`, true},
		{`{"Variable": "$.zone", "IsTimestamp": true}`, true},
		{`{"Variable": "$.s", "IsTimestamp": true}`, false},
		{`{"And": [{"Variable": "$.t", "BooleanEquals": true}, {"Variable": "$.n", "NumericEquals": 5}]}`, true},
		{`{"And": [{"Variable": "$.t", "BooleanEquals": true}, {"Variable": "$.n", "NumericEquals": 6}]}`, false},
		{`{"Or": [{"Variable": "$.t", "BooleanEquals": false}, {"Variable": "$.n", "NumericEquals": 5}]}`, true},
		{`{"Or": [{"Variable": "$.t", "BooleanEquals": false}, {"Variable": "$.n", "NumericEquals": 6}]}`, false},
		{`{"Not": {"Or": [{"Variable": "$.t", "BooleanEquals": false}, {"Not": {"Variable": "$.n", "NumericEquals": 5}}]}}`, true},
		{`{"And": [{"Variable": "$.nope", "IsPresent": true}, {"Variable": "$.nope", "NumericEquals": 6}]}`, false},
	} {
		if got, want := choose(t, test.rule), map[bool]string{true: "Yes", false: "No"}[test.want]; got != want {
			t.Errorf("%s: got %s, want %s", test.rule, got, want)
		}
	}
}

func TestComparisonWithAMissingValueFails(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		`{"Variable": "$.nope", "StringEquals": "b"}`, `{"Variable": "$.nope", "IsNull": true}`, `{"Variable": "$.nope", "IsNumeric": false}`,
		`{"Variable": "$.s", "StringEqualsPath": "$.nope"}`, `{"Not": {"Variable": "$.nope", "BooleanEquals": true}}`,
	} {
		if got := choose(t, rule); !strings.HasPrefix(got, "States.Runtime: Invalid path '$.nope'") {
			t.Errorf("%s: got %s, want States.Runtime", rule, got)
		}
	}
}

func TestFirstRuleThatHoldsDecides(t *testing.T) {
	t.Parallel()
	m, findings := asl.Parse(`{"StartAt": "C", "States": {"C": {"Type": "Choice", "Choices": [
		{"Variable": "$", "NumericGreaterThan": 10, "Next": "A"}, {"Variable": "$", "NumericGreaterThan": 5, "Next": "B"}, {"Variable": "$", "NumericGreaterThan": 1, "Next": "A"}]},
		"A": {"Type": "Succeed"}, "B": {"Type": "Succeed"}}}`)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	for input, want := range map[string]string{"11": "A", "10": "B", "5": "A", "1": "States.NoChoiceMatched"} {
		value, err := document.Decode(input)
		if err != nil {
			t.Fatal(err)
		}
		got, failure := m.All["C"].Choose(asl.Scope{Data: value})
		if failure != nil {
			got = failure.Error
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", input, got, want)
		}
	}
}
