package awslocal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
)

// These variables change the size of a soak. make soak sets them.
const (
	soakMessages = "SOAK_MESSAGES"
	soakGroups   = "SOAK_GROUPS"
	soakKills    = "SOAK_KILLS"
)

const (
	soakConsumers = 8
	soakProducers = 4
	// soakVisibility is longer than a restart, so that messages in flight at a kill are still in flight after the
	// restart. It is short enough for redeliveries during the test.
	soakVisibility = 2 * time.Second
	// soakEmptyMax limits how many receives in a row may return nothing once all messages are sent. Beyond this limit,
	// undeleted messages count as lost. An empty receive waits a second in the server. Messages in flight return after
	// soakVisibility. In that time, 8 consumers make about 16 empty receives.
	soakEmptyMax = 300
)

// soak runs 8 consumers and 4 producers on one FIFO queue behind a loopback port. Each has its own SDK client.
type soak struct {
	t                *testing.T
	url, queueURL    string
	groups, messages int
	seed             uint64
	*soakLedger

	sent                                         atomic.Bool  // set once all producers are done
	empty                                        atomic.Int64 // consecutive receives without a message
	abandoned, returned, sentAgain, deletedAgain atomic.Int64
}

// sizeOf returns the number in an environment variable, or `small` if the variable is not set.
func sizeOf(t *testing.T, variable string, small int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(small)))
	if err != nil {
		t.Fatalf("expected a number in %s: %v", variable, err)
	}
	return n
}

func newSoak(t *testing.T, url string) *soak {
	t.Helper()
	s := &soak{t: t, url: url, groups: sizeOf(t, soakGroups, 50), messages: sizeOf(t, soakMessages, 2000), seed: rand.Uint64()}
	s.soakLedger = newSoakLedger(soakVisibility, s.groups, s.messages)
	t.Logf("%d messages, %d groups, seed %d", s.messages, s.groups, s.seed)
	out, err := s.client().CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("soak.fifo"), Attributes: map[string]string{
		"FifoQueue": "true", "VisibilityTimeout": fmt.Sprint(soakVisibility.Seconds()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.queueURL = *out.QueueUrl
	return s
}

func (s *soak) client() *sqs.Client {
	return sqs.New(sqs.Options{Region: awslocal.Region, BaseEndpoint: &s.url, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")})
}

// clock returns the wall clock, which the server process also reads. A monotonic clock differs between processes.
func clock() time.Time { return time.Now().Round(0) }

// run sends and consumes all messages. Meanwhile it calls `disturb` the given number of times. The calls are spread
// evenly over the deletions.
func (s *soak) run(times int, disturb func()) {
	start := time.Now()
	ctx, stop := context.WithCancel(s.t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	var producers sync.WaitGroup
	for i := range soakProducers {
		producers.Go(func() { s.produce(ctx, i) })
	}
	workers.Go(func() {
		producers.Wait()
		s.sent.Store(true)
	})
	for i := range soakConsumers {
		workers.Go(func() { s.consume(ctx, i) })
	}
	for i := range times {
		s.await((i + 1) * s.messages / (times + 1))
		disturb()
	}
	s.await(s.messages)
	s.checkEmpty()
	s.t.Logf("%v: %d redeliveries, %d overtaken deliveries, %d dropped batches, %d released messages, %d repeated sends, %d repeated deletions",
		time.Since(start).Round(time.Millisecond), s.again, s.outdated, s.abandoned.Load(), s.returned.Load(), s.sentAgain.Load(), s.deletedAgain.Load())
}

// await returns when this many messages are deleted. It ends the test at the first error or lost message.
func (s *soak) await(want int) {
	s.t.Helper()
	for round := 1; ; round++ {
		got, faults := s.progress()
		switch {
		case s.t.Failed(): // a worker has reported the reason
			s.t.FailNow()
		case len(faults) > 0:
			s.t.Fatalf("%d errors; the first: %s", len(faults), strings.Join(faults[:min(len(faults), 5)], "\n"))
		case got >= want:
			return
		case s.empty.Load() > soakEmptyMax:
			s.t.Fatalf("%d of %d messages are lost: %s", s.messages-got, s.messages, s.missing())
		case timeUp(s.t):
			s.t.Fatalf("the timeout of go test is near, and %d of %d messages remain: %s", s.messages-got, s.messages, s.missing())
		case round%1000 == 0: // The server is not being killed now. It answers unless it crashed.
			queue{t: s.t, client: s.client(), url: s.queueURL}.attributes("ApproximateNumberOfMessages")
		}
		time.Sleep(time.Millisecond)
	}
}

// checkEmpty fails unless the queue holds no message in any state.
func (s *soak) checkEmpty() {
	s.t.Helper()
	q := queue{t: s.t, client: s.client(), url: s.queueURL}
	for name, count := range q.attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed") {
		if count != "0" {
			s.t.Errorf("%s is %s when all messages are deleted, want 0", name, count)
		}
	}
}

// produce sends the messages of every fourth group, in order within each group. Now and then it repeats a recent
// message.
func (s *soak) produce(ctx context.Context, producer int) {
	client, random := s.client(), rand.New(rand.NewPCG(s.seed, uint64(producer)))
	var sent []int
	for i := range s.messages {
		if i%s.groups%soakProducers != producer {
			continue
		}
		if !s.send(ctx, client, i) {
			return
		}
		if sent = append(sent, i); random.IntN(20) > 0 {
			continue
		}
		s.sentAgain.Add(1)
		if latest := sent[max(0, len(sent)-100):]; !s.send(ctx, client, latest[random.IntN(len(latest))]) {
			return
		}
	}
}

// send sends a message, and retries until a call succeeds. It returns false if the test is over.
func (s *soak) send(ctx context.Context, client *sqs.Client, i int) bool {
	group, number := i%s.groups, i/s.groups
	in := &sqs.SendMessageInput{QueueUrl: &s.queueURL, MessageBody: aws.String(fmt.Sprintf("%d %d", group, number)),
		MessageGroupId: aws.String(strconv.Itoa(group)), MessageDeduplicationId: aws.String(strconv.Itoa(i))}
	for {
		_, err := client.SendMessage(ctx, in)
		if err == nil {
			return true
		}
		if !s.mayRetry(ctx, "SendMessage", err) {
			return false
		}
		s.sentAgain.Add(1)
	}
}

// consume receives and deletes messages until ctx ends. Now and then it drops or releases received messages.
func (s *soak) consume(ctx context.Context, consumer int) {
	client, random := s.client(), rand.New(rand.NewPCG(s.seed, uint64(consumer)))
	for {
		asked := clock()
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &s.queueURL,
			MaxNumberOfMessages: 1 + random.Int32N(10), WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"ApproximateReceiveCount"}})
		if err != nil {
			if !s.mayRetry(ctx, "ReceiveMessage", err) {
				return
			}
			continue
		}
		batch, err := deliveries(out.Messages)
		if err != nil {
			s.t.Error(err)
			return
		}
		if !s.sent.Load() || len(batch) > 0 {
			s.empty.Store(0)
		} else {
			s.empty.Add(1)
		}
		s.deliver(asked, clock(), batch)
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		finish := s.acknowledge
		if random.IntN(100) == 0 {
			finish = s.giveBack
		}
		for _, d := range batch {
			if random.IntN(1000) == 0 {
				s.abandoned.Add(1)
				break
			}
			if !finish(ctx, client, d) {
				return
			}
		}
	}
}

// deliveries converts received messages.
func deliveries(messages []types.Message) ([]delivery, error) {
	var batch []delivery
	for _, m := range messages {
		d := delivery{handle: *m.ReceiptHandle}
		if _, err := fmt.Sscanf(*m.Body+" "+m.Attributes["ApproximateReceiveCount"], "%d %d %d", &d.group, &d.number, &d.receives); err != nil {
			return nil, fmt.Errorf("expected a message that the test has sent, got %q: %w", *m.Body, err)
		}
		batch = append(batch, d)
	}
	return batch, nil
}

// acknowledge deletes a message, and retries while the server is down. It returns false if the test is over or the call
// fails for another reason.
func (s *soak) acknowledge(ctx context.Context, client *sqs.Client, d delivery) bool {
	for {
		s.deleting(d)
		_, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &s.queueURL, ReceiptHandle: &d.handle})
		var api smithy.APIError
		switch {
		case err == nil:
			s.deleted(d)
			return true
		case errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "The receipt handle has expired"):
			s.expired(d, clock())
			return true
		case !s.mayRetry(ctx, "DeleteMessage", err):
			return false
		}
		s.deletedAgain.Add(1)
	}
}

// giveBack makes a message available at once, while the rest of its batch is still in flight. Otherwise it works like
// acknowledge.
func (s *soak) giveBack(ctx context.Context, client *sqs.Client, d delivery) bool {
	for {
		s.returning(d)
		_, err := client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &s.queueURL, ReceiptHandle: &d.handle})
		var api smithy.APIError
		var back *types.MessageNotInflight // The visibility timeout of the message had ended.
		ended := errors.As(err, &back) || errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "not available")
		if err == nil || ended {
			s.returned.Add(1)
			return true
		}
		if !s.mayRetry(ctx, "ChangeMessageVisibility", err) {
			return false
		}
	}
}

// mayRetry reports whether a call failed because the server was down. If so, it first waits a little.
func (s *soak) mayRetry(ctx context.Context, call string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		s.t.Errorf("%s: %v", call, err)
		return false
	}
	time.Sleep(5 * time.Millisecond)
	return true
}

// freeAddress returns a loopback address below the range of ephemeral ports, so that no outgoing connection takes the
// port while the server is down.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(10_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close() // The listener is no longer needed.
			return address
		}
	}
	t.Fatal("no free port found")
	return ""
}

func TestSoak_order_locks_and_exactly_once_survive_kills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := serveAt + "=" + freeAddress(t)
	server := startChild(t, dir, at)
	s := newSoak(t, server.url)
	s.run(sizeOf(t, soakKills, 3), func() {
		server.kill()
		server = startChild(t, dir, at)
	})
}

func TestSoak_order_locks_and_exactly_once_hold_in_memory(t *testing.T) {
	t.Parallel()
	server, err := awslocal.New(awslocal.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	newSoak(t, server.URL()).run(0, nil)
}
