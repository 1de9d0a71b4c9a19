package durable

import "slices"

// Owes reports whether effects of the record, or answers to Step Functions tasks, are not known to be performed yet. The next
// delivery to the instance performs them first.
func (r Record) Owes() bool {
	return len(r.Outbox) > 0 || slices.ContainsFunc(r.Tokens, func(token Token) bool { return !waits(token) })
}
