package sqsqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/tracing"
)

// wire is an HTTP client in front of the local SQS that records the calls. If `reply` is set, the client answers
// SendMessageBatch with it.
type wire struct {
	next    aws.HTTPClient
	status  int
	reply   string
	batches []int // the number of entries of each SendMessageBatch
	singles int
}

func (w *wire) Do(request *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	switch operation {
	case "SendMessage":
		w.singles++
	case "SendMessageBatch":
		var batch struct{ Entries []struct{ ID string } }
		if err := json.Unmarshal(body, &batch); err != nil {
			return nil, err
		}
		w.batches = append(w.batches, len(batch.Entries))
	}
	if w.reply != "" && operation == "SendMessageBatch" {
		header := http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
		return &http.Response{StatusCode: w.status, Header: header, Body: io.NopCloser(strings.NewReader(w.reply))}, nil
	}
	return w.next.Do(request)
}

// refuse makes SendMessageBatch fail as a whole.
func (w *wire) refuse(code string) {
	w.status, w.reply = http.StatusBadRequest, `{"__type": "com.amazonaws.sqs#`+code+`", "message": "no"}`
}

// wired returns the fixture's queue behind a wire. Its client does not retry.
func (f *fixture) wired() (*sqsqueue.Queue, *wire) {
	w := &wire{next: f.cloud.HTTPClient()}
	client := sqs.New(sqs.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: w, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	return sqsqueue.New(client, f.url, f.deadLetterURL), w
}

// messages returns a message to each of n instances, with the given body.
func messages(n int, body string) []durable.Message {
	var all []durable.Message
	for i := range n {
		id := instances.ID{Machine: "signup", ID: fmt.Sprint(i)}
		all = append(all, durable.Message{To: id, Body: []byte(body), DeduplicationID: fmt.Sprint("d-", i)})
	}
	return all
}

// nilIndexes returns the indices of the errors that are nil.
func nilIndexes(errs []error) []int {
	var all []int
	for i, err := range errs {
		if err == nil {
			all = append(all, i)
		}
	}
	return all
}

// TestABatchIsOneRequest also sends the batch twice: deduplication IDs work as in Send.
func TestABatchIsOneRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queue, wire := f.wired()
	batch := messages(10, "{\"type\":\"A\",\"text\":\"\uffff\"}")
	for range 2 {
		if errs := queue.SendBatch(t.Context(), batch); len(errs) != 10 || len(nilIndexes(errs)) != 10 {
			t.Fatalf("got %v, want ten times nil", errs)
		}
	}
	if !slices.Equal(wire.batches, []int{10, 10}) || wire.singles != 0 {
		t.Errorf("got batches of %v and %d single sends, want two batches of 10", wire.batches, wire.singles)
	}
	got := f.deliveries()
	if len(got) != 10 {
		t.Fatalf("got %d deliveries, want 10", len(got))
	}
	for i, delivery := range got {
		want := batch[i]
		if delivery.Group != want.To.String() || delivery.DeduplicationID != want.DeduplicationID || delivery.Body != `{"type":"A","text":"\uffff"}` {
			t.Errorf("got %+v, want %s under %s", delivery, want.To, want.DeduplicationID)
		}
	}
}

func TestABatchOfZeroOrOneMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queue, wire := f.wired()
	if errs := queue.SendBatch(t.Context(), nil); len(errs) != 0 {
		t.Errorf("got %v for no message, want nothing", errs)
	}
	if errs := queue.SendBatch(t.Context(), messages(1, `{}`)); len(errs) != 1 || errs[0] != nil {
		t.Errorf("got %v for one message, want nil", errs)
	}
	if requests := len(wire.batches) + wire.singles; requests != 1 || len(f.deliveries()) != 1 {
		t.Errorf("got %d requests, want one that sends one message", requests)
	}
}

// TestAnInvalidBatchIsNotSent sends batches that are the caller's error. The errors do not wrap durable.ErrRefused,
// because a bug in the caller must not drop an effect.
func TestAnInvalidBatchIsNotSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queue, wire := f.wired()
	sameGroup := messages(3, `{}`)
	sameGroup[2].To = sameGroup[0].To
	for want, batch := range map[string][]durable.Message{
		"expected at most 10 messages, got 11":                           messages(11, `{}`),
		"expected messages to different instances, got two for signup/0": sameGroup,
	} {
		errs := queue.SendBatch(t.Context(), batch)
		if len(errs) != len(batch) || len(nilIndexes(errs)) > 0 {
			t.Fatalf("got %v, want an error for each of %d messages", errs, len(batch))
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), want) || errors.Is(err, durable.ErrRefused) || errors.Is(err, durable.ErrDenied) {
				t.Errorf("got %v, want %q and neither ErrRefused nor ErrDenied", err, want)
			}
		}
	}
	if len(wire.batches)+wire.singles != 0 {
		t.Errorf("got batches of %v and %d single sends, want none", wire.batches, wire.singles)
	}
}

// TestABatchOverTheLimitIsSplit fills the limit of one request to the byte, then exceeds it by one. Trace attributes count.
func TestABatchOverTheLimitIsSplit(t *testing.T) {
	t.Parallel()
	part := func(of, extra int) string {
		const frame = `{"type":""}`
		return `{"type":"` + strings.Repeat("x", sqsqueue.MessageBytesMax/of-len(frame)+extra) + `"}`
	}
	half := func(extra int) string { return part(2, extra) }
	for _, c := range []struct {
		name    string
		ctx     context.Context
		bodies  []string
		batches []int
		singles int
	}{
		{"at the limit", t.Context(), []string{half(0), half(0)}, []int{2}, 0},
		{"a byte over it", t.Context(), []string{half(0), half(1)}, nil, 2},
		{"over it with attributes", tracing.With(t.Context(), trace), slices.Repeat([]string{part(5, 0)}, 5), []int{4}, 1},
		{"in two parts", t.Context(), []string{`{}`, half(0), half(0), `{}`}, []int{2, 2}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			queue, wire := f.wired()
			batch := messages(len(c.bodies), "")
			for i := range batch {
				batch[i].Body = []byte(c.bodies[i])
			}
			if errs := queue.SendBatch(c.ctx, batch); len(nilIndexes(errs)) != len(batch) {
				t.Errorf("got %v, want all sent", errs)
			}
			if !slices.Equal(wire.batches, c.batches) || wire.singles != c.singles {
				t.Errorf("got batches of %v and %d single sends, want %v and %d", wire.batches, wire.singles, c.batches, c.singles)
			}
			if got := len(f.deliveries()); got != len(batch) {
				t.Errorf("got %d deliveries, want %d", got, len(batch))
			}
		})
	}
}

// TestARefusedMessageFailsAlone makes SQS refuse single entries of a batch. One message is too long for any request.
func TestARefusedMessageFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queue, _ := f.wired()
	batch := messages(4, `{}`)
	batch[1].DeduplicationID = strings.Repeat("d", 129)
	batch[2].Body = []byte(`{"type":"` + strings.Repeat("x", sqsqueue.MessageBytesMax) + `"}`)
	errs := queue.SendBatch(t.Context(), batch)
	if !slices.Equal(nilIndexes(errs), []int{0, 3}) {
		t.Fatalf("got %v, want the second and third refused", errs)
	}
	for i := 1; i <= 2; i++ {
		if !errors.Is(errs[i], sqsqueue.ErrRefused) || !strings.HasPrefix(errs[i].Error(), "sending "+batch[i].DeduplicationID+" to signup/"+fmt.Sprint(i)+" at http://") {
			t.Errorf("got %v, want an ErrRefused that names the message", errs[i])
		}
	}
	if got := len(f.deliveries()); got != 2 {
		t.Errorf("got %d deliveries, want the other 2", got)
	}
}

// TestErrorsOfEntriesAreClassifiedLikeSends uses responses that contain errors and omit an entry.
func TestErrorsOfEntriesAreClassifiedLikeSends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queue, wire := f.wired()
	wire.status, wire.reply = http.StatusOK, `{"Successful": [], "Failed": [
		{"Id": "0", "Code": "InvalidMessageContents", "Message": "no", "SenderFault": true},
		{"Id": "1", "Code": "KmsDisabled", "Message": "no", "SenderFault": true},
		{"Id": "2", "Code": "RequestThrottled", "Message": "no", "SenderFault": true},
		{"Id": "3", "Code": "InternalError", "Message": "no", "SenderFault": false},
		{"Id": "7", "Code": "InternalError", "Message": "of nobody", "SenderFault": false}]}`
	errs := queue.SendBatch(t.Context(), messages(5, `{}`))
	for i, want := range []error{sqsqueue.ErrRefused, sqsqueue.ErrDenied, nil, nil, nil} {
		isRefused, isDenied := errors.Is(errs[i], sqsqueue.ErrRefused), errors.Is(errs[i], sqsqueue.ErrDenied)
		if errs[i] == nil || isRefused != errors.Is(want, sqsqueue.ErrRefused) || isDenied != errors.Is(want, sqsqueue.ErrDenied) {
			t.Errorf("message %d: got %v, want an error that wraps %v", i, errs[i], want)
		}
	}
}

func TestAFailedCallFailsAllMessages(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{"QueueDoesNotExist": sqsqueue.ErrNoQueue, "AccessDeniedException": sqsqueue.ErrDenied, "RequestThrottled": nil, "ServiceUnavailable": nil} {
		f := newFixture(t)
		queue, wire := f.wired()
		wire.refuse(code)
		for i, err := range queue.SendBatch(t.Context(), messages(3, `{}`)) {
			if err == nil || want != nil && !errors.Is(err, want) || want == nil && (errors.Is(err, durable.ErrDenied) || errors.Is(err, durable.ErrRefused)) ||
				!strings.Contains(err.Error(), fmt.Sprintf("sending d-%d to signup/%d at ", i, i)) {
				t.Errorf("%s: message %d: got %v, want an error that wraps %v and names the message", code, i, err, want)
			}
		}
		if len(wire.batches) != 1 || wire.singles != 0 {
			t.Errorf("%s: got batches of %v and %d single sends, want one call", code, wire.batches, wire.singles)
		}
	}
}

// TestARefusedBatchIsSentOneByOne refuses a batch with one invalid message. The response does not name this message,
// and the other messages must not be dropped.
func TestARefusedBatchIsSentOneByOne(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"InvalidParameterValue", "InvalidMessageContents", "BatchRequestTooLong"} {
		f := newFixture(t)
		queue, wire := f.wired()
		wire.refuse(code)
		batch := messages(3, `{}`)
		batch[1].DeduplicationID = strings.Repeat("d", 129)
		errs := queue.SendBatch(t.Context(), batch)
		if !slices.Equal(nilIndexes(errs), []int{0, 2}) || !errors.Is(errs[1], sqsqueue.ErrRefused) {
			t.Errorf("%s: got %v, want only the second refused", code, errs)
		}
		if got := len(f.deliveries()); got != 2 || wire.singles != 3 {
			t.Errorf("%s: got %d deliveries of %d single sends, want 2 of 3", code, got, wire.singles)
		}
	}
}

func TestEachMessageOfABatchHasTheTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		if errs := f.queue.SendBatch(tracing.With(t.Context(), trace), messages(2, `{}`)); len(nilIndexes(errs)) != 2 {
			t.Fatalf("got %v, want all sent", errs)
		}
		for _, message := range f.receive(f.url) {
			if got := aws.ToString(message.MessageAttributes[sqsqueue.AttrTraceparent].StringValue); got != trace.Parent || message.Attributes["AWSTraceHeader"] != trace.AWS {
				t.Errorf("got the attributes %v and %v, want the trace", message.MessageAttributes, message.Attributes)
			}
		}
	})
}
