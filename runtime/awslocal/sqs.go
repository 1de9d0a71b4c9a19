package awslocal

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// forever is the wait of a receive that only its context ends.
const forever time.Duration = -1

// sqsService serves the model of SQS to many callers at once, and holds those who wait for
// a message.
type sqsService struct {
	now func() time.Time

	mu    sync.Mutex
	model *sqs.Model
	rooms map[string]*waitingRoom // by queue name; none is empty
}

func newSQSService(now func() time.Time) *sqsService {
	return &sqsService{now: now, model: sqs.New(), rooms: make(map[string]*waitingRoom)}
}

// call performs an operation of SQS, whose input and output are JSON.
func (s *sqsService) call(ctx context.Context, endpoint, operation string, body []byte) ([]byte, *wire.Error) {
	if operation == "ReceiveMessage" {
		var in sqs.ReceiveMessageInput
		if err := sqs.Decode(body, &in); err != nil {
			return nil, err
		}
		out, err := s.receive(ctx, &in)
		if err != nil {
			return nil, err
		}
		return sqs.Encode(out), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, gone(ctx)
	}
	answer, err := s.model.Call(s.now(), endpoint, operation, body)
	s.notify()
	return answer, err
}

// receive receives messages, and waits for them as long as the request, or else the queue,
// says. Whoever ends ctx gets no message.
func (s *sqsService) receive(ctx context.Context, in *sqs.ReceiveMessageInput) (sqs.ReceiveMessageOutput, *wire.Error) {
	return s.receiveWithin(ctx, in, 0)
}

// receiveWithin is receive with a wait that, unless it is zero, overrides what request and
// queue say.
func (s *sqsService) receiveWithin(ctx context.Context, in *sqs.ReceiveMessageInput, wait time.Duration) (sqs.ReceiveMessageOutput, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var timeout <-chan time.Time
	var place *list.Element
	for expired := false; ; {
		if ctx.Err() != nil {
			return sqs.ReceiveMessageOutput{}, gone(ctx)
		}
		out, err := s.model.ReceiveMessage(s.now(), in)
		s.notify()
		if wait == 0 {
			wait = out.Wait
		}
		if err != nil || len(out.Messages) > 0 || wait == 0 || expired {
			return out, err
		}
		if place == nil {
			queue := sqs.QueueName(in.QueueUrl)
			place = s.enter(queue)
			defer s.leave(queue, place)
			if wait != forever {
				timer := time.NewTimer(wait)
				defer timer.Stop()
				timeout = timer.C
			}
		}
		s.mu.Unlock()
		select {
		case <-turn(place):
		case <-ctx.Done():
		case <-timeout:
			// One last try: whether a message that comes at this very instant is received
			// must not depend on which channel the select takes.
			expired = true
		}
		s.mu.Lock()
	}
}

// enter puts the caller in line for a message of the queue.
func (s *sqsService) enter(queue string) *list.Element {
	room, ok := s.rooms[queue]
	if !ok {
		room = &waitingRoom{waiting: list.New()}
		s.rooms[queue] = room
	}
	place := room.enter()
	s.arrange(queue)
	return place
}

// leave takes the caller out of the line. If it goes without a message, the next in line
// may have it.
func (s *sqsService) leave(queue string, place *list.Element) {
	s.rooms[queue].waiting.Remove(place)
	s.arrange(queue)
}

// notify tells the receives that wait on the queues which the model has just changed.
func (s *sqsService) notify() {
	for _, queue := range s.model.TakeTouched() {
		s.arrange(queue)
	}
}

// arrange lets the first receive that waits on the queue try again: now if there may be a
// message, or else at the instant when time will have brought one.
func (s *sqsService) arrange(queue string) {
	room, ok := s.rooms[queue]
	if !ok {
		return
	}
	room.stop()
	if room.waiting.Len() == 0 {
		delete(s.rooms, queue)
		return
	}
	now := s.now()
	next, ok := s.model.NextReceivable(now, queue)
	switch {
	case !ok:
	case next.After(now):
		room.timer = time.AfterFunc(next.Sub(now), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.arrange(queue)
		})
	default:
		room.wakeFirst()
	}
}
