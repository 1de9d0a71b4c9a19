package enrich

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Enrich is the payload of ENRICH, the first event.
type Enrich struct {
	// Subject is the subject in the third party's terms: the address of a web page.
	Subject string `json:"subject"`
	// Reference is the caller's reference, such as the ID of a record.
	Reference string `json:"reference,omitempty"`
}

// Validate checks that there is a subject.
func (e Enrich) Validate() error {
	if e.Subject == "" {
		return errors.New("expected a subject, got none")
	}
	return nil
}

// Succeeded is the payload of SUCCEEDED: the third party called back with data. [ReadCallback] returns it.
type Succeeded struct {
	// Data is the third party's result: any JSON except null.
	Data json.RawMessage `json:"data"`
}

// Validate checks that there is data.
func (s Succeeded) Validate() error {
	if isNull(s.Data) {
		return errors.New("expected data, got none")
	}
	return nil
}

// Failure is the payload of FAILED: the third party called back with a failure.
type Failure struct {
	// Error is the third party's text.
	Error string `json:"error"`
}

// Validate checks that there is a text.
func (f Failure) Validate() error {
	if f.Error == "" {
		return errors.New("expected the text of an error, got none")
	}
	return nil
}

// AliasTaken is the type of the event that the runtime sends if another instance already has the alias.
const AliasTaken = "alias.taken"

// TakenAlias is the payload of AliasTaken.
type TakenAlias struct {
	Alias string `json:"alias"`
}

// isNull reports whether the JSON is missing or null.
func isNull(value json.RawMessage) bool {
	return len(value) == 0 || bytes.Equal(value, []byte("null"))
}
