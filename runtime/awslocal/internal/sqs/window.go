package sqs

import "time"

// deduplicationInterval is how long SQS remembers a deduplication ID and a
// ReceiveRequestAttemptId (SQS Developer Guide, "Exactly-once processing in Amazon SQS").
const deduplicationInterval = 5 * time.Minute

// window remembers what was put into it for deduplicationInterval. Time moves forward
// only, so the entries are forgotten in the order they came.
type window[K comparable, V any] struct {
	entries map[K]remembered[V]
	order   []expiry[K]
}

type remembered[V any] struct {
	value   V
	expires time.Time
}

type expiry[K comparable] struct {
	key     K
	expires time.Time
}

// get returns what is remembered under key at the instant now.
func (w *window[K, V]) get(now time.Time, key K) (V, bool) {
	w.forget(now)
	e, ok := w.entries[key]
	return e.value, ok
}

// put remembers value under key from now on, in place of what was there.
func (w *window[K, V]) put(now time.Time, key K, value V) {
	w.forget(now)
	if w.entries == nil {
		w.entries = make(map[K]remembered[V])
	}
	expires := now.Add(deduplicationInterval)
	w.entries[key] = remembered[V]{value, expires}
	w.order = append(w.order, expiry[K]{key, expires})
}

func (w *window[K, V]) forget(now time.Time) {
	gone := 0
	for ; gone < len(w.order) && !now.Before(w.order[gone].expires); gone++ {
		// A key that was put again since has a later expiry, further back in the order.
		if e, ok := w.entries[w.order[gone].key]; ok && !now.Before(e.expires) {
			delete(w.entries, w.order[gone].key)
		}
	}
	w.order = w.order[gone:]
}

// amend changes the value under key, which is forgotten when it would have been before.
func (w *window[K, V]) amend(key K, value V) {
	if e, ok := w.entries[key]; ok {
		e.value = value
		w.entries[key] = e
	}
}
