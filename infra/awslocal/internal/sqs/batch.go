package sqs

import (
	"regexp"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// BatchEntriesMax is the maximum number of entries of a batch, and of messages of a receive.
const BatchEntriesMax = 10

var batchIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// batch calls `do` for each entry, in order. A failing entry does not affect the others. If the batch is malformed, it
// fails as a whole, and batch does not call `do`.
func batch[E, R any](entries []E, id func(E) string, do func(E) (R, *wire.Error)) (BatchOutput[R], *wire.Error) {
	var out BatchOutput[R]
	if err := checkBatch(entries, id); err != nil {
		return out, err
	}
	for _, entry := range entries {
		result, err := do(entry)
		if err != nil {
			out.Failed = append(out.Failed,
				BatchFailure{Id: id(entry), Code: err.Code, Message: err.Message, SenderFault: true})
			continue
		}
		out.Successful = append(out.Successful, result)
	}
	return out, nil
}

func checkBatch[E any](entries []E, id func(E) string) *wire.Error {
	switch {
	case len(entries) == 0:
		return namedf("EmptyBatchRequest", "There should be at least one batch entry in the request.")
	case len(entries) > BatchEntriesMax:
		return namedf("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are %d. You have sent %d.", BatchEntriesMax, len(entries))
	}
	seen := make(map[string]bool, len(entries))
	for _, entry := range entries {
		name := id(entry)
		if !batchIDPattern.MatchString(name) {
			return namedf("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric "+
				"characters, hyphens and underscores, and be 1 to 80 in length; got %q.", name)
		}
		if seen[name] {
			return namedf("BatchEntryIdsNotDistinct",
				"Two or more batch entries in the request have the same Id: %q.", name)
		}
		seen[name] = true
	}
	return nil
}
