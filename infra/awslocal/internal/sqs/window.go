package sqs

import (
	"slices"
	"time"
)

// deduplicationInterval is how long SQS remembers a deduplication ID and a ReceiveRequestAttemptId (SQS Developer
// Guide, "Exactly-once processing in Amazon SQS").
const deduplicationInterval = 5 * time.Minute

// dropsMax is the maximum number of expired entries that a call of get or put drops. Callers call get before put, so
// the window can drop two entries for each entry that it adds. Expired entries therefore do not accumulate.
const dropsMax = 1

// window remembers entries for deduplicationInterval. Time only moves forward, so entries expire in the order they
// were added. Each call drops only a few expired entries, so that no call is slow.
type window[K comparable, V any] struct {
	entries map[K]remembered[V]
	order   []expiry[K]
	// changed, if not nil, is called with the key of each entry that is added, changed or dropped.
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

// get returns the value of key at the given time.
func (w *window[K, V]) get(now time.Time, key K) (V, bool) {
	w.dropExpired(now)
	if e, ok := w.entries[key]; ok && now.Before(e.expires) {
		return e.value, true
	}
	var none V
	return none, false
}

// put stores value under key and replaces any existing value.
func (w *window[K, V]) put(now time.Time, key K, value V) {
	w.dropExpired(now)
	if w.entries == nil {
		w.entries = make(map[K]remembered[V])
	}
	expires := now.Add(deduplicationInterval)
	w.entries[key] = remembered[V]{value, expires}
	w.order = append(w.order, expiry[K]{key, expires})
	w.notify(key)
}

// dropExpired drops some expired entries.
func (w *window[K, V]) dropExpired(now time.Time) {
	gone := 0
	for ; gone < min(len(w.order), dropsMax) && !now.Before(w.order[gone].expires); gone++ {
		// If a caller has put the key again, its entry expires later, and w.order contains the key a second time.
		if e, ok := w.entries[w.order[gone].key]; ok && !now.Before(e.expires) {
			delete(w.entries, w.order[gone].key)
			w.notify(w.order[gone].key)
		}
	}
	w.order = w.order[gone:]
}

// amend changes the value of key without changing its expiry.
func (w *window[K, V]) amend(key K, value V) {
	if e, ok := w.entries[key]; ok {
		e.value = value
		w.entries[key] = e
		w.notify(key)
	}
}

// clear removes all entries.
func (w *window[K, V]) clear() {
	for _, e := range w.order {
		w.notify(e.key)
	}
	w.entries, w.order = nil, nil
}

func (w *window[K, V]) notify(key K) {
	if w.changed != nil {
		w.changed(key)
	}
}

// entry is the value of one key and its expiry.
type entry[K comparable, V any] struct {
	key K
	remembered[V]
}

// restore restores the entries of a window.
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
