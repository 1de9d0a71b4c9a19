package asl

import (
	"fmt"
	"strings"
)

// Finding is an error in a definition: something that Step Functions or this package does not accept.
type Finding struct {
	Code     string // such as "SCHEMA_VALIDATION_FAILED"
	Message  string
	Location string // such as "/States/Send/Next"
}

// The codes of findings, as in ValidateStateMachineDefinition.
const (
	schemaInvalid    = "SCHEMA_VALIDATION_FAILED"
	targetMissing    = "MISSING_TRANSITION_TARGET"
	duplicateName    = "DUPLICATE_STATE_NAME"
	invalidJSON      = "INVALID_JSON_DESCRIPTION"
	notSupportedHere = "NOT_SUPPORTED_BY_AWSLOCAL"
)

// Findings are the findings in one definition.
type Findings []Finding

// String lists all findings in the form of InvalidDefinition's message.
func (f Findings) String() string {
	var lines []string
	for _, finding := range f {
		lines = append(lines, fmt.Sprintf("%s: %s at %s", finding.Code, finding.Message, finding.Location))
	}
	return "Invalid State Machine Definition: '" + strings.Join(lines, ", ") + "'"
}

func (f *Findings) add(location, code, format string, args ...any) {
	if location == "" {
		location = "/"
	}
	*f = append(*f, Finding{code, fmt.Sprintf(format, args...), location})
}
