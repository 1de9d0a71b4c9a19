// Package record is how the models of awslocal say what of their state a call has changed,
// so that it can be kept on disk. A model's whole state is a set of records, each a small
// part of it under a key of its own: a message, an item, an execution.
//
// A model that is to be kept has three methods:
//
//	Keep()                                   from now on, note which records change
//	TakeRecords() []record.Record            what has changed since it was last asked
//	Restore(seq iter.Seq2[string, []byte]) error
//
// Restore makes of an empty model what it was when all records taken so far, the later over
// the earlier, were these; the sequence is ordered by key, and its values are valid only
// until the next one. Nothing else may be state: a restored model answers every call as the
// first would have. Restore comes before Keep: what is restored has not changed.
package record

// Record is one part of a model's state.
type Record struct {
	// Key names the part within its model.
	Key string
	// Value is what must be known to restore the part; nil means that the part is gone.
	Value []byte
}

// Touched notes the keys of records that have changed. The zero value notes nothing.
type Touched struct {
	on    bool
	noted map[string]struct{}
	keys  []string
}

// Keep makes t note keys from now on.
func (t *Touched) Keep() {
	t.on = true
	t.noted = make(map[string]struct{})
}

// Kept reports whether t notes keys. Whoever must build a key first may ask before.
func (t *Touched) Kept() bool { return t.on }

// Note notes that the record of a key was added, changed or removed.
func (t *Touched) Note(key string) {
	if !t.on {
		return
	}
	if _, noted := t.noted[key]; !noted {
		t.noted[key] = struct{}{}
		t.keys = append(t.keys, key)
	}
}

// Records returns the records of the keys noted since the last call, each once, in the order in
// which they were first noted, and forgets the keys. value gives what a record is now, nil if it
// is gone.
func (t *Touched) Records(value func(key string) []byte) []Record {
	var records []Record
	for _, key := range t.keys {
		records = append(records, Record{Key: key, Value: value(key)})
	}
	t.keys = nil
	clear(t.noted)
	return records
}
