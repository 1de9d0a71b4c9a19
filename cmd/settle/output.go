package main

import "encoding/json"

// printJSON writes a value as indented JSON.
func (s *session) printJSON(value any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
