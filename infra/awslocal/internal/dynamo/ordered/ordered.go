// Package ordered implements a map with keys in byte order, for tables whose items are read by key range. The
// standard library has no such map.
package ordered

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math/bits"
)

// levelsMax is the maximum height of the skip list. Each level has a quarter of the nodes of the level below, so 16
// levels suffice for 2^32 keys.
const levelsMax = 16

// Map is a skip list (W. Pugh, "Skip Lists: A Probabilistic Alternative to Balanced Trees", 1990). Get, Set, Delete
// and the first step of a walk take time logarithmic in the number of keys. The height of a node derives from the
// hash of its key instead of a random source, so that the same operations always build the same list. The zero value
// is an empty map.
//
// Do not change a map during a walk.
type Map[V any] struct {
	// head[i] is the first node of level i.
	head   [levelsMax]*node[V]
	length int
}

type node[V any] struct {
	key string
	// prefix holds the first bytes of key. Most comparisons need only the prefix and no access to key.
	prefix uint64
	value  V
	// next[i] is the following node of level i. Its length is the node's height.
	next []*node[V]
}

// Len returns the number of keys.
func (m *Map[V]) Len() int { return m.length }

// Get returns the value of a key.
func (m *Map[V]) Get(key string) (value V, found bool) {
	if n := m.seek(key, nil); n != nil && n.key == key {
		return n.value, true
	}
	return value, false
}

// Set sets the value of a key.
func (m *Map[V]) Set(key string, value V) {
	var before [levelsMax]*node[V]
	if n := m.seek(key, &before); n != nil && n.key == key {
		n.value = value
		return
	}
	added := &node[V]{key: key, prefix: prefixOf(key), value: value, next: make([]*node[V], heightOf(key))}
	for level := range added.next {
		link := m.link(before[level], level)
		added.next[level] = *link
		*link = added
	}
	m.length++
}

// Delete removes a key, if it exists.
func (m *Map[V]) Delete(key string) {
	var before [levelsMax]*node[V]
	n := m.seek(key, &before)
	if n == nil || n.key != key {
		return
	}
	for level := range n.next {
		*m.link(before[level], level) = n.next[level]
	}
	m.length--
}

// From walks the keys from `begin` on, in ascending order.
func (m *Map[V]) From(begin string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for n := m.seek(begin, nil); n != nil; n = n.next[0] {
			if !yield(n.key, n.value) {
				return
			}
		}
	}
}

// Before walks the keys less than `end`, in descending order. Each step takes logarithmic time.
func (m *Map[V]) Before(end string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for {
			var before [levelsMax]*node[V]
			m.seek(end, &before)
			n := before[0]
			if n == nil || !yield(n.key, n.value) {
				return
			}
			end = n.key
		}
	}
}

// seek returns the first node at or after key. If `before` is not nil, seek sets before[i] to the last node before key
// on level i, or to nil if the level has no such node.
func (m *Map[V]) seek(key string, before *[levelsMax]*node[V]) *node[V] {
	var last *node[V]
	prefix := prefixOf(key)
	for level := levelsMax - 1; level >= 0; level-- {
		for n := *m.link(last, level); n != nil && n.before(key, prefix); n = n.next[level] {
			last = n
		}
		if before != nil {
			before[level] = last
		}
	}
	return *m.link(last, 0)
}

// before reports whether the node comes before `key`, whose prefix is `prefix`.
func (n *node[V]) before(key string, prefix uint64) bool {
	if n.prefix != prefix {
		return n.prefix < prefix
	}
	return n.key < key
}

// prefixOf returns the first eight bytes of a key, padded with zeros. If the prefixes of two keys differ, the keys sort
// like their prefixes.
func prefixOf(key string) uint64 {
	var first [8]byte
	copy(first[:], key)
	return binary.BigEndian.Uint64(first[:])
}

// link returns the pointer to the node that follows n on a level. A nil n is the head.
func (m *Map[V]) link(n *node[V], level int) **node[V] {
	if n == nil {
		return &m.head[level]
	}
	return &n.next[level]
}

// heightOf returns a geometrically distributed height: each level has a quarter of the nodes of the level below.
func heightOf(key string) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // Writing to a hash never fails.
	return min(1+bits.TrailingZeros64(mix(hash.Sum64()))/2, levelsMax)
}

// mix spreads the entropy of an FNV hash to its low bits (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
