package awslocal

import (
	"container/list"
	"time"
)

// waitingRoom is where the receives on one queue wait for a message, first come, first
// served. One timer wakes the first of them when time alone will bring a message.
//
// The lock of the Cloud guards it.
type waitingRoom struct {
	waiting *list.List // of chan struct{}
	timer   *time.Timer
}

// enter adds a receive to the end of the line. Its channel gets a value when it is its turn
// to try again.
func (r *waitingRoom) enter() *list.Element {
	return r.waiting.PushBack(make(chan struct{}, 1))
}

func turn(place *list.Element) <-chan struct{} { return place.Value.(chan struct{}) }

// wakeFirst gives the first in line its turn.
func (r *waitingRoom) wakeFirst() {
	if first := r.waiting.Front(); first != nil {
		select {
		case first.Value.(chan struct{}) <- struct{}{}:
		default: // it has its turn already
		}
	}
}

// wakeAll gives all in line their turn.
func (r *waitingRoom) wakeAll() {
	for place := r.waiting.Front(); place != nil; place = place.Next() {
		select {
		case place.Value.(chan struct{}) <- struct{}{}:
		default: // it has its turn already
		}
	}
}

// stop ends the timer.
func (r *waitingRoom) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}
