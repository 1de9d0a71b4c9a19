package awslocal

import (
	"container/list"
	"time"
)

// waitingRoom is the line of receives that wait on one queue, first come, first served. Its timer wakes the first
// receive when a message becomes available only because time passes, such as at the end of a visibility timeout.
//
// The lock of the Cloud guards it.
type waitingRoom struct {
	waiting *list.List // elements have the type chan struct{}
	timer   *time.Timer
}

// enter adds a receive to the end of the line. The receive may retry whenever its channel gets a value.
func (r *waitingRoom) enter() *list.Element {
	return r.waiting.PushBack(make(chan struct{}, 1))
}

func turn(place *list.Element) <-chan struct{} { return place.Value.(chan struct{}) }

// wakeFirst wakes the receive that has waited longest, so that it retries.
func (r *waitingRoom) wakeFirst() {
	if first := r.waiting.Front(); first != nil {
		select {
		case first.Value.(chan struct{}) <- struct{}{}:
		default: // The receive is already woken.
		}
	}
}

// wakeAll wakes all receives in line, so that they retry.
func (r *waitingRoom) wakeAll() {
	for place := r.waiting.Front(); place != nil; place = place.Next() {
		select {
		case place.Value.(chan struct{}) <- struct{}{}:
		default: // The receive is already woken.
		}
	}
}

// stop stops the timer.
func (r *waitingRoom) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}
