package awslocal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// faulty is a Cloud with a queue. It injects faults into the calls of its client "victim". The SDK does not retry these
// calls.
type faulty struct {
	queue
	victim aws.Config

	mu    sync.Mutex
	fault awslocal.Fault
	times int             // number of calls that get the fault; negative means all
	calls []awslocal.Call // the victim's calls
}

func newFaulty(t *testing.T, fault awslocal.Fault) *faulty {
	t.Helper()
	f := &faulty{fault: fault, times: -1}
	cloud := awslocal.New(awslocal.Config{Fault: func(call awslocal.Call) awslocal.Fault {
		if call.Client != "victim" {
			return awslocal.Fault{}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls = append(f.calls, call)
		if f.times == 0 {
			return awslocal.Fault{}
		}
		f.times--
		return f.fault
	}})
	f.queue = addFIFO(t, cloud, "queue.fifo", nil)
	f.victim = faultyConfig("http://aws.local")
	f.victim.HTTPClient = cloud.Client("victim")
	return f
}

func faultyConfig(url string) aws.Config {
	return aws.Config{
		Region: awslocal.Region, BaseEndpoint: &url, AppID: "victim",
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// set changes the fault of later calls.
func (f *faulty) set(fault awslocal.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// try sends a message to group g as the victim.
func (f *faulty) try(ctx context.Context, body string) error {
	_, err := sqs.NewFromConfig(f.victim).SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &f.url, MessageBody: &body, MessageGroupId: aws.String("g"), MessageDeduplicationId: &body,
	})
	return err
}

func TestFault_hits_the_calls_of_one_client(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, awslocal.Fault{RequestLost: true})
	f.send("g", "from-another")
	if err := f.try(t.Context(), "m"); err == nil {
		t.Error("the call did not fail")
	}
	_, err := dynamodb.NewFromConfig(f.victim).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err == nil {
		t.Error("the call did not fail")
	}
	_, err = scheduler.NewFromConfig(f.victim).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
	if err == nil {
		t.Error("the call did not fail")
	}
	want := []awslocal.Call{ // calls 1 and 2 were CreateQueue and SendMessage
		{Number: 3, Client: "victim", Service: "sqs", Operation: "SendMessage"},
		{Number: 4, Client: "victim", Service: "dynamodb", Operation: "ListTables"},
		{Number: 5, Client: "victim", Service: "scheduler", Operation: "ListSchedules"},
	}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantBodies(t, f.receive(upTo(10)), "from-another")
}

func TestFault_lost_request_has_no_effect_but_lost_answer_has(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, awslocal.Fault{RequestLost: true})
	if err := f.try(t.Context(), "lost"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a broken connection", err)
	}
	f.set(awslocal.Fault{AnswerLost: true})
	if err := f.try(t.Context(), "taken"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a broken connection", err)
	}
	wantBodies(t, f.receive(upTo(10)), "taken")
}

// TestFault_breaks_connections_of_sockets uses a loopback port, where the application ID of the SDK identifies the
// client.
func TestFault_breaks_connections_of_sockets(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, awslocal.Fault{RequestLost: true})
	server, err := f.cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	f.victim = faultyConfig(server.URL())
	if err := f.try(t.Context(), "lost"); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("got %v, want a broken connection", err)
	}
	f.set(awslocal.Fault{AnswerLost: true})
	if err := f.try(t.Context(), "taken"); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("got %v, want a broken connection", err)
	}
	f.set(awslocal.Fault{})
	if err := f.try(t.Context(), "well"); err != nil {
		t.Error(err)
	}
	wantBodies(t, f.receive(upTo(10)), "taken", "well")
}

func TestFault_SDK_retries_succeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, fault := range map[string]awslocal.Fault{
			"throttled": {Throttled: true}, "request-lost": {RequestLost: true}, "answer-lost": {AnswerLost: true},
		} {
			f := newFaulty(t, fault)
			f.victim.Retryer = nil // nil selects the SDK's default, with three attempts
			f.times = 2
			if err := f.try(t.Context(), name); err != nil || len(f.calls) != 3 {
				t.Errorf("%s: got %v after %d attempts, want success in the third", name, err, len(f.calls))
			}
			wantBodies(t, f.receive(upTo(10)), name) // The message arrives once, because of its deduplication ID.
		}
	})
}

func TestFault_throttles_with_the_error_of_each_service(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, awslocal.Fault{Throttled: true})
	wantCode(t, f.try(t.Context(), "m"), "RequestThrottled")
	_, err := dynamodb.NewFromConfig(f.victim).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	wantCode(t, err, "ThrottlingException")
	_, err = scheduler.NewFromConfig(f.victim).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
	wantCode(t, err, "ThrottlingException")
	wantBodies(t, f.receive())

	request, err := f.cloud.Client("victim").PostForm("http://aws.local/", map[string][]string{"Action": {"ListQueues"}})
	if err != nil {
		t.Fatal(err)
	}
	defer request.Body.Close()
	body, err := io.ReadAll(request.Body)
	if err != nil || !strings.Contains(string(body), "<Code>RequestThrottled</Code>") || f.calls[len(f.calls)-1].Operation != "ListQueues" {
		t.Errorf("the query protocol: got %s, %v, want RequestThrottled for ListQueues", body, err)
	}
}

func TestFault_duplicated_call_takes_effect_twice(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, awslocal.Fault{})
	tables := dynamodb.NewFromConfig(f.victim)
	if _, err := tables.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("table"), BillingMode: dynamotypes.BillingModePayPerRequest,
		KeySchema:            []dynamotypes.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: dynamotypes.KeyTypeHash}},
		AttributeDefinitions: []dynamotypes.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
	}); err != nil {
		t.Fatal(err)
	}
	id := map[string]dynamotypes.AttributeValue{"id": &dynamotypes.AttributeValueMemberS{Value: "i"}}
	f.set(awslocal.Fault{Duplicated: true})
	out, err := tables.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("table"), Key: id, UpdateExpression: aws.String("ADD n :one"), ReturnValues: dynamotypes.ReturnValueUpdatedNew,
		ExpressionAttributeValues: map[string]dynamotypes.AttributeValue{":one": &dynamotypes.AttributeValueMemberN{Value: "1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Attributes["n"].(*dynamotypes.AttributeValueMemberN).Value; got != "2" {
		t.Errorf("got %s, want 2, the answer of the second call", got)
	}
	_, err = tables.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String("table"), ConditionExpression: aws.String("attribute_not_exists(id)"),
		Item: map[string]dynamotypes.AttributeValue{"id": &dynamotypes.AttributeValueMemberS{Value: "j"}},
	})
	var failed *dynamotypes.ConditionalCheckFailedException
	wantAs(t, err, &failed)
}

func TestFault_delays_before_or_after_the_effect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault awslocal.Fault
		seen  []string // bodies that another client receives before the slow call returns
	}{
		"before": {awslocal.Fault{Before: 10 * time.Second}, nil},
		"after":  {awslocal.Fault{After: 10 * time.Second}, []string{"slow", "impatient"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(t, test.fault)
				start := time.Now()
				done := make(chan error, 1)
				go func() { done <- f.try(t.Context(), "slow") }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := f.try(ctx, "impatient"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the client to give up", err)
				}
				wantElapsed(t, start, 5*time.Second)
				wantBodies(t, f.receive(upTo(10), visible(1)), test.seen...)
				if err := <-done; err != nil {
					t.Error(err)
				}
				wantElapsed(t, start, 10*time.Second)
				if test.seen == nil {
					test.seen = []string{"slow"} // the client of "impatient" gave up before its request reached the service
				}
				wantBodies(t, f.receive(upTo(10)), test.seen...)
			})
		})
	}
}

func TestFault_frozen_client_continues_with_stale_data(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t, awslocal.Fault{})
		start := time.Now()
		polled := make(chan time.Duration, 1)
		go func() { // This call is in flight when the client freezes.
			_, err := sqs.NewFromConfig(f.victim).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &f.url, WaitTimeSeconds: 20})
			if err != nil {
				t.Error(err)
			}
			polled <- time.Since(start)
		}()
		synctest.Wait()
		f.set(awslocal.Fault{Frozen: 2 * time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- f.try(ctx, "stale") }()
		synctest.Wait()
		f.set(awslocal.Fault{})
		second := make(chan error, 1)
		go func() { second <- f.try(ctx, "meanwhile") }()
		time.Sleep(time.Minute)
		f.send("h", "from-another") // another client, which is not frozen
		another := f.receive(upTo(10))
		wantBodies(t, another, "from-another")
		f.delete(another...)

		if err := <-first; err != nil {
			t.Errorf("got %v, want the call to succeed after its context has ended", err)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
		wantElapsed(t, start, 2*time.Minute)
		if after := <-polled; after != 2*time.Minute {
			t.Errorf("the call in flight returned after %v, want the end of the freeze", after)
		}
		if got := bodies(f.receive(upTo(10))); len(got) != 2 {
			t.Errorf("got %q, want stale and meanwhile", got)
		}
		if err := f.try(ctx, "too-late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the calls after the freeze to see that the context has ended", err)
		}
	})
}

// deliver puts two messages into a queue and polls it for five minutes with a function that calls `do`. The deliveries
// have the given faults, in order. The results are the function and all deliveries.
func deliver(t *testing.T, do func(cloud *awslocal.Cloud, url string) error, faults ...awslocal.DeliveryFault) (*function, []awslocal.Delivery) {
	t.Helper()
	var mu sync.Mutex
	var deliveries []awslocal.Delivery
	cloud := awslocal.New(awslocal.Config{DeliveryFault: func(d awslocal.Delivery) awslocal.DeliveryFault {
		mu.Lock()
		defer mu.Unlock()
		deliveries = append(deliveries, d)
		if len(deliveries) > len(faults) {
			return awslocal.DeliveryFault{}
		}
		return faults[len(deliveries)-1]
	}})
	q := addFIFO(t, cloud, "queue.fifo", map[string]string{"VisibilityTimeout": "30"})
	q.sendAll("a1", "a2")
	f := newFunction(func(context.Context, events.SQSEvent) (any, error) { return nil, do(cloud, q.url) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: 20 * time.Second, Client: "victim"}, func() awslocal.Invoker { return f })
	if err != nil {
		t.Error(err)
	}
	left := q.attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
	if left["ApproximateNumberOfMessages"] != "0" || left["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("got %v left in the queue, want none", left)
	}
	return f, deliveries
}

func TestDeliveryFault_lost_delivery_is_redelivered_after_the_visibility_timeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, deliveries := deliver(t, func(*awslocal.Cloud, string) error { return nil }, awslocal.DeliveryFault{Lost: true})
		f.wantCalls(t, "30s [a1 a2]")
		want := []awslocal.Delivery{{Number: 1, Queue: "queue.fifo", Bodies: []string{"a1", "a2"}}, {Number: 2, Queue: "queue.fifo", Bodies: []string{"a1", "a2"}}}
		if diff := cmp.Diff(want, deliveries); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

func TestDeliveryFault_lost_acknowledgement_reruns_the_function(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := deliver(t, func(*awslocal.Cloud, string) error { return nil }, awslocal.DeliveryFault{AcknowledgementLost: true})
		f.wantCalls(t, "0s [a1 a2]", "30s [a1 a2]")
	})
}

// While the first invocation is frozen, a second invocation receives the same batch and processes it. Then the first
// invocation continues, and its call takes effect last.
func TestDeliveryFault_frozen_function_continues_after_its_batch_was_redelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var effects []string
		runs := 0
		f, _ := deliver(t, func(cloud *awslocal.Cloud, url string) error {
			mu.Lock()
			runs++
			client := []string{"victim", "another"}[runs-1]
			mu.Unlock()
			config := faultyConfig("http://aws.local")
			config.HTTPClient = cloud.Client(client)
			_, err := sqs.NewFromConfig(config).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("queue.fifo")})
			mu.Lock()
			effects = append(effects, fmt.Sprint(time.Since(start), " ", client))
			mu.Unlock()
			return err
		}, awslocal.DeliveryFault{Frozen: time.Minute})
		f.wantCalls(t, "0s [a1 a2]", "30s [a1 a2]")
		if diff := cmp.Diff([]string{"30s another", "1m0s victim"}, effects); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	})
}

// The freeze also delays a function that makes no calls: Poll deletes its messages too late.
func TestDeliveryFault_frozen_function_acknowledges_too_late(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := deliver(t, func(*awslocal.Cloud, string) error { return nil }, awslocal.DeliveryFault{Frozen: time.Minute})
		f.wantCalls(t, "0s [a1 a2]", "30s [a1 a2]")
	})
}

// wantAs fails unless err has the target's type.
func wantAs[E error](t *testing.T, err error, target *E) {
	t.Helper()
	if !errors.As(err, target) {
		t.Fatalf("got %v, want an error of type %T", err, *target)
	}
}
