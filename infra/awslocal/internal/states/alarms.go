package states

import (
	"container/heap"
	"time"
)

// alarm is the time of the next time-driven work of an execution or one of its flows.
type alarm struct {
	at   time.Time
	x    *execution
	f    *flow // nil for the timeout of the execution
	slot int   // index in the heap; absent if not set
}

// absent is the slot of an alarm that is not set.
const absent = -1

// alarms is a heap of the set alarms, earliest first. Alarms of the same time are in the order in which executions
// and flows started.
type alarms struct{ heap alarmHeap }

func (a *alarms) min() (*alarm, bool) {
	if len(a.heap) == 0 {
		return nil, false
	}
	return a.heap[0], true
}

// set sets an alarm. The zero time clears it.
func (a *alarms) set(al *alarm, at time.Time) {
	al.at = at
	switch {
	case at.IsZero() && al.slot != absent:
		heap.Remove(&a.heap, al.slot)
	case at.IsZero():
	case al.slot == absent:
		heap.Push(&a.heap, al)
	default:
		heap.Fix(&a.heap, al.slot)
	}
}

// alarmHeap implements heap.Interface.
type alarmHeap []*alarm

func (h alarmHeap) Len() int { return len(h) }

func (h alarmHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	if a.x != b.x {
		return a.x.serial < b.x.serial
	}
	return a.place() < b.place()
}

// place returns the position of an alarm among the alarms of its execution: the execution's timeout comes before the
// flows.
func (a *alarm) place() int {
	if a.f == nil {
		return 0
	}
	return a.f.ID
}

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *alarmHeap) Push(item any) {
	a := item.(*alarm)
	a.slot = len(*h)
	*h = append(*h, a)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.slot = absent
	return a
}
