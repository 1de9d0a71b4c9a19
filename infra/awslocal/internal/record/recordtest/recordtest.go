// Package recordtest stores the records of a model under test.
package recordtest

import (
	"maps"
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// Kept holds the latest version of each record of a model, by key, as a data folder does.
type Kept map[string][]byte

// Apply stores the changed records and deletes the removed ones.
func (k Kept) Apply(records []record.Record) {
	for _, r := range records {
		if r.Value == nil {
			delete(k, r.Key)
		} else {
			k[r.Key] = r.Value
		}
	}
}

// Each yields the records in key order, for Restore. A value is valid only until the next value is yielded: Each reuses
// one buffer for all values and clears it at the end.
func (k Kept) Each(yield func(string, []byte) bool) {
	var buffer []byte
	defer func() { clear(buffer) }()
	for _, key := range slices.Sorted(maps.Keys(k)) {
		clear(buffer)
		buffer = append(buffer[:0], k[key]...)
		if !yield(key, buffer) {
			return
		}
	}
}
