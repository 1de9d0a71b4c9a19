package awslocal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
)

func (c child) createFIFO(name string, attributes map[string]string) queue {
	c.t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	for key, value := range attributes {
		all[key] = value
	}
	return c.create(name, all)
}

func (c child) create(name string, attributes map[string]string) queue {
	c.t.Helper()
	if _, err := c.sqs.CreateQueue(c.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}); err != nil {
		c.t.Fatal(err)
	}
	return c.queue(name)
}

// trySend sends a body to a group. The first 100 bytes of the body are the deduplication ID.
func (q queue) trySend(group, body string) (*sqs.SendMessageOutput, error) {
	id := body[:min(len(body), 100)]
	return q.client.SendMessage(q.t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &id,
	})
}

func TestKeep_answered_calls_survive_a_kill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, dir)
	q := c.createFIFO("queue.fifo", map[string]string{"VisibilityTimeout": "600"})
	first := q.send("a", "a1")
	q.sendAll("a2", "b1")
	inFlight := q.receive()
	wantBodies(t, inFlight, "a1")
	_, err := c.dynamo.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("table"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	item := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "x"}, "n": &types.AttributeValueMemberN{Value: "7"}}
	if _, err := c.dynamo.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item}); err != nil {
		t.Fatal(err)
	}

	c.kill()
	c = startChild(t, dir)
	q = c.queue("queue.fifo")
	if again := q.send("a", "a1"); *again.MessageId != *first.MessageId {
		t.Errorf("the resend of a1 got the ID %s, want %s as a duplicate", *again.MessageId, *first.MessageId)
	}
	messages := q.receive(upTo(10))
	wantBodies(t, messages, "b1") // a1 is in flight, so its group is locked, and a2 waits
	q.delete(inFlight...)         // The receipt handle is from before the restart.
	wantBodies(t, q.receive(upTo(10)), "a2")
	if later := q.send("b", "b2"); *later.SequenceNumber <= messages[0].Attributes["SequenceNumber"] {
		t.Errorf("b2 has the sequence number %s, expected a higher one than %s", *later.SequenceNumber, messages[0].Attributes["SequenceNumber"])
	}
	out, err := c.dynamo.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: map[string]types.AttributeValue{"id": item["id"]}})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := out.Item["n"].(*types.AttributeValueMemberN); !ok || n.Value != "7" {
		t.Errorf("got the item %v, want n to be 7", out.Item)
	}
}

func TestKeep_visibility_timeouts_continue_across_restarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cloud, err := awslocal.Open(awslocal.Config{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		q := addFIFO(t, cloud, "queue.fifo", nil)
		q.sendAll("a1", "a2")
		start := time.Now()
		wantBodies(t, q.receive(visible(30)), "a1")
		if err := cloud.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := q.tryReceive(t.Context()); err == nil || !strings.Contains(err.Error(), "the data folder "+dir+" is closed") {
			t.Errorf("a receive after Close: got %v, expected an error that mentions the closed folder", err)
		}

		time.Sleep(10 * time.Second)
		cloud, err = awslocal.Open(awslocal.Config{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Close()
		q.client = newClient(cloud)
		messages := q.receive(waiting(20), visible(30))
		wantBodies(t, messages, "a1")
		if got := messages[0].Attributes["ApproximateReceiveCount"]; got != "2" {
			t.Errorf("a1 was received %s times, want 2", got)
		}
		wantElapsed(t, start, 30*time.Second)
	})
}

func TestLambda_poller_resumes_messages_in_flight_after_a_restart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			resume bool
			body   string
			want   string
		}{
			{true, "a1", "0s [a1]"},
			{false, "a2", "29s [a2]"}, // without Resume, the queue redelivers a2 30 s after its receipt
		} {
			dir := t.TempDir()
			before, err := awslocal.Open(awslocal.Config{Data: dir})
			if err != nil {
				t.Fatal(err)
			}
			q := addFIFO(t, before, "queue.fifo", nil)
			q.sendAll(test.body)
			wantBodies(t, q.receive(), test.body)
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}

			time.Sleep(time.Second)
			q.cloud, err = awslocal.Open(awslocal.Config{Data: dir})
			if err != nil {
				t.Fatal(err)
			}
			q.client = newClient(q.cloud)
			q.sendAll("b1")
			wantBodies(t, q.receive(visible(600)), "b1") // received after Open, so Resume must not release it
			f := newFunction(succeed)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			err = q.cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Resume: test.resume}, func() awslocal.Invoker { return f })
			stop()
			if err := errors.Join(err, q.cloud.Close()); err != nil {
				t.Fatal(err)
			}
			f.wantCalls(t, test.want)
		}
	})
}

func TestNew_rejects_a_data_folder(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "use Open") {
			t.Errorf("got the panic %v, expected a panic that mentions Open", p)
		}
	}()
	awslocal.New(awslocal.Config{Data: t.TempDir()})
}

// The crash test kills the Cloud killCount times. At each kill, the clock jumps ahead by more than a visibility
// timeout, but by much less than a deduplication window. A repeated send is therefore recognised even after several
// kills.
const (
	killCount      = 20
	killVisibility = 60
	killAhead      = 70 * time.Second
)

var killGroups = []string{"a", "b", "c", "d"}

// witness records the errors of a Cloud that is killed repeatedly. Its mu also guards the fields of the types that
// embed witness.
type witness struct {
	mu    sync.Mutex
	wrong []string
}

// ledger records what the clients of a queue know from their requests and the answers.
type ledger struct {
	witness

	answered  map[string]int // by group: number of messages known to be sent
	asked     map[string]int // by group: number of messages whose deletion was requested
	deleted   map[string]int // by group: number of messages known to be deleted
	held      map[string]bool
	advanced  map[string]bool // by group: a new message was accepted since the last kill
	delivered int
}

func (w *witness) complain(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// expect reports an error if a correct queue would not return these messages of a group.
func (l *ledger) expect(group string, numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered += len(numbers)
	if l.held[group] {
		l.complain("%s-%d was received while an earlier message of its group was in flight", group, numbers[0])
	}
	l.held[group] = true
	if first := numbers[0]; first < l.deleted[group] || first > l.asked[group] {
		l.complain("%s-%d was received, expected a message from %d to %d, because earlier ones are deleted and order is kept", group, first, l.deleted[group], l.asked[group])
	}
	for i, n := range numbers {
		if n != numbers[0]+i {
			l.complain("%s: received in the order %v", group, numbers)
			break
		}
	}
}

func TestKeep_messages_survive_20_kills_in_order_exactly_once(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	l := &ledger{answered: map[string]int{}, asked: map[string]int{}, deleted: map[string]int{}}
	for life := range killCount + 1 {
		c := startChild(t, dir, fmt.Sprintf("%s=%v", serveAhead, time.Duration(life)*killAhead))
		q := c.createFIFO("queue.fifo", map[string]string{"VisibilityTimeout": fmt.Sprint(killVisibility)})
		l.held, l.advanced = map[string]bool{}, map[string]bool{}
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		var senders sync.WaitGroup
		for _, group := range killGroups {
			senders.Go(func() { l.send(ctx, q, group, life == killCount) })
			clients.Go(func() { l.receive(ctx, q) })
		}
		if life < killCount {
			if life%2 == 0 { // odd lives may end before any answer
				l.await(t, func() bool { return len(l.advanced) == len(killGroups) })
			}
			time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
			c.kill()
		} else {
			senders.Wait()
			l.await(t, func() bool {
				return !slices.ContainsFunc(killGroups, func(group string) bool { return l.deleted[group] < l.answered[group] })
			})
		}
		cancel()
		clients.Wait()
		senders.Wait()
		if t.Failed() || len(l.wrong) > 0 {
			break
		}
	}
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
	t.Logf("%d deliveries of %v messages", l.delivered, l.answered)
	for group, sent := range l.answered {
		if l.deleted[group] < sent {
			t.Errorf("%d messages of %s were accepted, but only %d could be received and deleted", sent, group, l.deleted[group])
		}
	}
}

// send first repeats the last accepted message of a group, which the queue must drop as a duplicate. Unless `last` is
// true, it then sends the following messages until ctx ends or a send fails.
func (l *ledger) send(ctx context.Context, q queue, group string, last bool) {
	l.mu.Lock()
	n := l.answered[group]
	l.mu.Unlock()
	for i := max(n-1, 0); ctx.Err() == nil; i++ {
		if _, err := q.trySend(group, fmt.Sprint(group, "-", i)); err != nil {
			l.ended(ctx, err)
			return
		}
		l.mu.Lock()
		l.answered[group] = max(l.answered[group], i+1)
		if i >= n {
			l.advanced[group] = true
		}
		l.mu.Unlock()
		if last {
			return
		}
	}
}

// receive receives messages and deletes them, in order.
func (l *ledger) receive(ctx context.Context, q queue) {
	for ctx.Err() == nil {
		messages, err := q.tryReceive(ctx, upTo(4), waiting(1))
		if err != nil {
			l.ended(ctx, err)
			return
		}
		byGroup := map[string][]sqstypes.Message{}
		for _, m := range messages {
			group := m.Attributes["MessageGroupId"]
			byGroup[group] = append(byGroup[group], m)
		}
		for group, messages := range byGroup {
			var numbers []int
			for _, m := range messages {
				var n int
				if _, err := fmt.Sscanf(*m.Body, group+"-%d", &n); err != nil {
					panic(err)
				}
				numbers = append(numbers, n)
			}
			l.expect(group, numbers)
			for i, m := range messages {
				l.mu.Lock()
				l.asked[group] = numbers[i] + 1
				if i == len(messages)-1 {
					l.held[group] = false // The next message may arrive before this deletion is answered.
				}
				l.mu.Unlock()
				if err := q.tryDelete(m); err != nil {
					l.ended(ctx, err)
					return
				}
				l.mu.Lock()
				l.deleted[group] = max(l.deleted[group], numbers[i]+1)
				l.mu.Unlock()
			}
		}
	}
}

// ended reports an error that a kill does not explain.
func (w *witness) ended(ctx context.Context, err error) {
	var api smithy.APIError
	if errors.As(err, &api) && ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.complain("%v", err)
	}
}

// await waits until `done` returns true or an error was reported. It has no timeout of its own. Shortly before go
// test's timeout, it reports an error, so that the test can still print its state.
func (w *witness) await(t *testing.T, done func() bool) {
	t.Helper()
	for ; ; time.Sleep(2 * time.Millisecond) {
		w.mu.Lock()
		if timeUp(t) {
			w.complain("the timeout of go test is near")
		}
		over := len(w.wrong) > 0 || done()
		w.mu.Unlock()
		if over {
			return
		}
	}
}

// timeUp reports whether go test's timeout is near.
func timeUp(t *testing.T) bool {
	t.Helper()
	deadline, ok := t.Deadline()
	return ok && time.Until(deadline) < 10*time.Second
}
