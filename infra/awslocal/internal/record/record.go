// Package record describes how the models of awslocal expose changes of their state for storage on disk. A model's
// whole state is a set of records. Each record is a small part of the state under its own key: a message, an item, an
// execution.
//
// A persistent model has three methods:
//
//	Keep()                                   start recording which records change
//	TakeRecords() []record.Record            return the records changed since the last call
//	Restore(seq iter.Seq2[string, []byte]) error
//
// Restore rebuilds an empty model from the latest version of each record. The sequence is ordered by key, and a value
// is valid only until Restore asks for the next value. The records must hold all state: a restored model must answer
// every call as the original would. Call Restore before Keep, so that restored records do not count as changed.
package record

// Record is one part of a model's state.
type Record struct {
	// Key names the part within its model.
	Key string
	// Value encodes the part. Nil means that the part was removed.
	Value []byte
}

// Touched collects the keys of changed records. The zero value collects nothing.
type Touched struct {
	on    bool
	noted map[string]struct{}
	keys  []string
}

// Keep makes t collect keys from now on.
func (t *Touched) Keep() {
	t.on = true
	t.noted = make(map[string]struct{})
}

// Kept reports whether t collects keys. A caller can check it before it builds a key.
func (t *Touched) Kept() bool { return t.on }

// Note adds the key of a record that was added, changed or removed.
func (t *Touched) Note(key string) {
	if !t.on {
		return
	}
	if _, noted := t.noted[key]; !noted {
		t.noted[key] = struct{}{}
		t.keys = append(t.keys, key)
	}
}

// Records returns the records of the keys collected since the last call, each once, in the order of their first change.
// It then forgets the keys. The function `value` returns the current value of a record, or nil if it was removed.
func (t *Touched) Records(value func(key string) []byte) []Record {
	var records []Record
	for _, key := range t.keys {
		records = append(records, Record{Key: key, Value: value(key)})
	}
	t.keys = nil
	clear(t.noted)
	return records
}
