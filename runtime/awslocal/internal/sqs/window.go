package sqs

import (
	"slices"
	"time"
)

// deduplicationInterval is how long SQS remembers a deduplication ID and a
// ReceiveRequestAttemptId (SQS Developer Guide, "Exactly-once processing in Amazon SQS").
const deduplicationInterval = 5 * time.Minute

// forgottenMax is how many entries one call of a window drops. Whoever puts has asked before:
// two calls drop two entries where one is added, so a burst that has expired does go.
const forgottenMax = 1

// window remembers what was put into it for deduplicationInterval. Time moves forward
// only, so the entries are forgotten in the order they came: each in time, but what has
// expired is dropped a little with every call, so that none pays for all.
type window[K comparable, V any] struct {
	entries map[K]remembered[V]
	order   []expiry[K]
	// changed is told the key of each entry that is put, amended or forgotten. Nil: nobody is.
	changed func(K)
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
	if e, ok := w.entries[key]; ok && now.Before(e.expires) {
		return e.value, true
	}
	var none V
	return none, false
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
	w.tell(key)
}

// forget drops some of what has expired.
func (w *window[K, V]) forget(now time.Time) {
	gone := 0
	for ; gone < min(len(w.order), forgottenMax) && !now.Before(w.order[gone].expires); gone++ {
		// A key that was put again since has a later expiry, further back in the order.
		if e, ok := w.entries[w.order[gone].key]; ok && !now.Before(e.expires) {
			delete(w.entries, w.order[gone].key)
			w.tell(w.order[gone].key)
		}
	}
	w.order = w.order[gone:]
}

// amend changes the value under key, which is forgotten when it would have been before.
func (w *window[K, V]) amend(key K, value V) {
	if e, ok := w.entries[key]; ok {
		e.value = value
		w.entries[key] = e
		w.tell(key)
	}
}

// clear forgets everything.
func (w *window[K, V]) clear() {
	for _, e := range w.order {
		w.tell(e.key)
	}
	w.entries, w.order = nil, nil
}

func (w *window[K, V]) tell(key K) {
	if w.changed != nil {
		w.changed(key)
	}
}

// entry is what a window remembers under one key.
type entry[K comparable, V any] struct {
	key K
	remembered[V]
}

// restore puts back what the window remembered.
func (w *window[K, V]) restore(entries []entry[K, V]) {
	slices.SortFunc(entries, func(a, b entry[K, V]) int { return a.expires.Compare(b.expires) })
	for _, e := range entries {
		if w.entries == nil {
			w.entries = make(map[K]remembered[V])
		}
		w.entries[e.key] = e.remembered
		w.order = append(w.order, expiry[K]{e.key, e.expires})
	}
}
