package sqs

import "container/heap"

// absent is the index of an item that is in no heap.
const absent = -1

// indexed is a binary heap whose items know their index, so that any item can be moved or removed in O(log n).
type indexed[T any] struct {
	order heapOrder[T]
}

// newIndexed returns an empty heap ordered by less. The function `place` returns a pointer to the item's index, which
// equals `absent` while the item is not in this heap.
func newIndexed[T any](less func(a, b T) bool, place func(T) *int) indexed[T] {
	return indexed[T]{heapOrder[T]{less: less, place: place}}
}

// min returns the smallest item, or false if the heap is empty.
func (h *indexed[T]) min() (T, bool) {
	if len(h.order.items) == 0 {
		var none T
		return none, false
	}
	return h.order.items[0], true
}

// put adds item, or moves it if its order has changed.
func (h *indexed[T]) put(item T) {
	if i := *h.order.place(item); i != absent {
		heap.Fix(&h.order, i)
		return
	}
	heap.Push(&h.order, item)
}

// remove removes item if it is in the heap.
func (h *indexed[T]) remove(item T) {
	if i := *h.order.place(item); i != absent {
		heap.Remove(&h.order, i)
	}
}

// heapOrder implements heap.Interface for indexed.
type heapOrder[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int
}

func (o *heapOrder[T]) Len() int           { return len(o.items) }
func (o *heapOrder[T]) Less(i, j int) bool { return o.less(o.items[i], o.items[j]) }

func (o *heapOrder[T]) Swap(i, j int) {
	o.items[i], o.items[j] = o.items[j], o.items[i]
	*o.place(o.items[i]) = i
	*o.place(o.items[j]) = j
}

func (o *heapOrder[T]) Push(item any) {
	t := item.(T)
	*o.place(t) = len(o.items)
	o.items = append(o.items, t)
}

func (o *heapOrder[T]) Pop() any {
	last := len(o.items) - 1
	t := o.items[last]
	var none T
	o.items[last] = none
	o.items = o.items[:last]
	*o.place(t) = absent
	return t
}
