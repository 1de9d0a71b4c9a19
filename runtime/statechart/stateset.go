package statechart

import "math/bits"

// stateSet is a set of state indexes. Indexes follow the document order, parents before children. So ascending order is
// SCXML's entry order.
type stateSet []uint64

func newStateSet(states int) stateSet { return make(stateSet, (states+63)/64) }

func (s stateSet) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }
func (s stateSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }

func (s stateSet) clear() {
	for w := range s {
		s[w] = 0
	}
}

func (s stateSet) clone() stateSet { return append(stateSet(nil), s...) }

// next returns the smallest member that is at least i, or -1.
func (s stateSet) next(i int) int {
	for w := i >> 6; w < len(s); w++ {
		word := s[w]
		if w == i>>6 {
			word &= ^uint64(0) << (i & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// count returns the number of members.
func (s stateSet) count() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// anyIn reports whether a member lies between low and high inclusive.
func (s stateSet) anyIn(low, high int) bool {
	if low > high {
		return false
	}
	i := s[:high>>6+1].next(low)
	return i >= 0 && i <= high
}
