package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

const (
	loadProducers = 8
	// backlogMax is the number of queued events at which the producers pause. The backlog keeps the consumers busy
	// while processes are killed.
	backlogMax = 500
)

// sending is one event of a producer, with the event's sequence number in the queue.
type sending struct {
	order
	event, instance string
	sequence        string // decimal digits of fixed length, set once the queue has accepted the event
}

// eventID returns the $id of the event. Half of the producers send no $id, so only the queue's deduplication recognises
// their retries.
func (s sending) eventID() string {
	if s.Producer%2 == 0 {
		return ""
	}
	return s.ID()
}

// load is the work of the producers.
type load struct {
	client   *sqs.Client
	queueURL string
	seed     uint64
	// plan lists the events of each producer in order.
	plan [loadProducers][]sending

	accepted atomic.Int64
	repeated atomic.Int64
	backlog  atomic.Int64
}

// newLoad draws a mix of all event types for random instances.
func newLoad(client *sqs.Client, queueURL string, seed uint64, instances, events int) *load {
	l := &load{client: client, queueURL: queueURL, seed: seed}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range events {
		event := add
		if kind := random.IntN(100); kind < 20 {
			event = []string{tell, later, wind, hire, pay}[kind/4]
		}
		// Every instance gets at least one event. The rest are distributed at random.
		instance := i
		if i >= instances {
			instance = random.IntN(instances)
		}
		p := random.IntN(loadProducers)
		l.plan[p] = append(l.plan[p], sending{event: event, instance: fmt.Sprint("account/", instance),
			order: order{Producer: p, Serial: len(l.plan[p]), Amount: 1 + random.Int64N(1000)}})
	}
	return l
}

// produce runs all producers and returns when the queue has accepted every event.
func (l *load) produce(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var producers, watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil {
			if waiting, err := waitingIn(ctx, l.client, l.queueURL); err == nil {
				l.backlog.Store(waiting)
			}
			pause(ctx, 50*time.Millisecond)
		}
	})
	for p := range l.plan {
		producers.Go(func() {
			random := rand.New(rand.NewPCG(l.seed, uint64(p)+1))
			for i := range l.plan[p] {
				for l.backlog.Load() > backlogMax && ctx.Err() == nil {
					pause(ctx, 20*time.Millisecond)
				}
				err := l.send(ctx, &l.plan[p][i])
				if err == nil && random.IntN(20) == 0 {
					l.repeated.Add(1)
					err = l.send(ctx, &l.plan[p][i-random.IntN(min(i+1, 20))])
				}
				if err != nil {
					t.Errorf("producer %d, event %d: %v", p, i, err)
					cancel()
					return
				}
			}
		})
	}
	producers.Wait()
	cancel()
	watch.Wait()
}

// send sends an event until the queue responds.
func (l *load) send(ctx context.Context, s *sending) error {
	body, err := json.Marshal(struct {
		Type string `json:"type"`
		ID   string `json:"$id,omitempty"`
		order
	}{s.event, s.eventID(), s.order})
	if err != nil {
		return err
	}
	for {
		out, err := l.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &l.queueURL, MessageBody: aws.String(string(body)),
			MessageGroupId: &s.instance, MessageDeduplicationId: aws.String(s.ID())})
		if err == nil {
			if s.sequence == "" {
				l.accepted.Add(1)
				s.sequence = *out.SequenceNumber
			}
			if s.sequence != *out.SequenceNumber {
				return fmt.Errorf("the queue accepted %s twice, as %s and %s", s.ID(), s.sequence, *out.SequenceNumber)
			}
			return nil
		}
		var api smithy.APIError
		if ctx.Err() != nil || errors.As(err, &api) {
			return err
		}
		l.repeated.Add(1)
		pause(ctx, 5*time.Millisecond)
	}
}

// waitingIn returns how many messages a queue holds: available, in flight or delayed.
func waitingIn(ctx context.Context, client *sqs.Client, url string) (int64, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed}})
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for name, text := range out.Attributes {
		var n int64
		if _, err := fmt.Sscan(text, &n); err != nil {
			return 0, fmt.Errorf("expected a number in %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// model is the sequential model: the expected state of each account, given the order in which the queue accepted its
// events.
type model struct {
	accounts map[string]*account
	// hands counts the expected children, by parent and order.
	hands map[string]int
	// payments are the events that must have called the service, by instance and event ID.
	payments map[string]bool
}

func (l *load) model() (*model, error) {
	m := &model{accounts: map[string]*account{}, hands: map[string]int{}, payments: map[string]bool{}}
	var all []sending
	for _, sent := range l.plan {
		latest := map[string]string{}
		for _, s := range sent {
			if s.sequence <= latest[s.instance] {
				return nil, fmt.Errorf("the queue accepted %s of producer %d before an earlier event of that producer to %s", s.ID(), s.Producer, s.instance)
			}
			latest[s.instance] = s.sequence
		}
		all = append(all, sent...)
	}
	slices.SortFunc(all, func(a, b sending) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, s := range all {
		m.apply(s)
	}
	return m, nil
}

func (m *model) account(instance string) *account {
	a := m.accounts[instance]
	if a == nil {
		a = &account{}
		m.accounts[instance] = a
	}
	return a
}

// apply applies one event and everything that follows from it.
func (m *model) apply(s sending) {
	a := m.account(s.instance)
	if s.event != wind && s.event != hire { // events of these two types may be deferred
		a.Digest = digest(a.Digest, s.event, s.order)
	}
	switch s.event {
	case add:
		a.Added.add(s.Amount)
	case tell:
		m.account(neighbour(s.order)).Told.add(s.Amount)
	case later:
		a.Later.add(s.Amount)
	case wind:
		a.Rung.add(1)
	case hire:
		a.Hired.add(s.Amount * s.Amount)
		a.Hiring = s.order
		m.hands[s.instance+" "+s.ID()]++
	case pay:
		a.Paid.add(s.Amount)
		a.Paying = s.order
		m.payments[s.instance+" "+s.ID()] = true
	}
}

// number returns the value of the variable. If the variable is not set, number returns `small`.
func number(t *testing.T, variable string, least, small int) int {
	t.Helper()
	n, err := atLeast(variable, cmp.Or(os.Getenv(variable), strconv.Itoa(small)), least)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// atLeast parses the value of a variable.
func atLeast(variable, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("expected %s to be a whole number of at least %d, got %q", variable, least, text)
	}
	return n, nil
}

func TestInvalidSizesAreRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1": "", "50000": "",
		"0": `expected PROCESSES_EVENTS to be a whole number of at least 1, got "0"`, "-1": `expected PROCESSES_EVENTS to be a whole number of at least 1, got "-1"`, "many": `expected PROCESSES_EVENTS to be a whole number of at least 1, got "many"`,
	} {
		n, err := atLeast(processesEvents, text, 1)
		if want == "" && (err != nil || strconv.Itoa(n) != text) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: want %q, got %d and %v", text, want, n, err)
		}
	}
}
