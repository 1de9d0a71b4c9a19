package schedule_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
)

// answer is an AWS client that fails every call with the same error.
type answer struct{ code, message string }

func (a answer) Do(*http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}, "X-Amzn-Errortype": {a.code}}
	body := `{"__type": "` + a.code + `", "message": "` + a.message + `", "Message": "` + a.message + `"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// The delay queue wraps a message. The largest message for an instance is therefore smaller than SQS's limit.
func TestTheDelayQueueTakesWhatSQSTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		body := func(bytes int) []byte { return []byte(`{"x":"` + strings.Repeat("x", bytes-len(`{"x":""}`)) + `"}`) }
		due := time.Now().Add(time.Minute)
		const wrapping = len(`{"at":"2000-01-01T00:01:00Z","to":"signup/ada","body":,"deduplication_id":"d"}`)
		largest := durable.Message{To: ada, Body: body(1<<20 - wrapping), DeduplicationID: "d"}
		if err := f.delays.Schedule(t.Context(), due, largest); err != nil {
			t.Fatal(err)
		}
		err := f.delays.Schedule(t.Context(), due, durable.Message{To: ada, Body: body(1<<20 - wrapping + 1), DeduplicationID: "d"})
		if !errors.Is(err, durable.ErrRefused) || !strings.Contains(err.Error(), "shorter than 1048576 bytes") {
			t.Errorf("one byte more: got %v, want ErrRefused with the limit", err)
		}
		f.poll(time.Hour)
		if diff := cmp.Diff([]sent{{due, largest}}, f.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%.1000s", diff)
		}
	})
}

func TestPermanentErrorsAreDistinguishedFromTransientOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer
		after time.Duration
		want  error // nil: neither ErrRefused nor ErrDenied
	}{
		{answer{"InvalidParameterValue", "One or more parameters are invalid."}, time.Second, durable.ErrRefused},
		{answer{"InvalidMessageContents", "no"}, time.Second, durable.ErrRefused},
		{answer{"QueueDoesNotExist", "no"}, time.Second, durable.ErrDenied},
		{answer{"AccessDeniedException", "no"}, time.Second, durable.ErrDenied},
		{answer{"KmsDisabled", "no"}, time.Second, durable.ErrDenied},
		{answer{"RequestThrottled", "no"}, time.Second, nil},
		{answer{"ValidationException", "Invalid Schedule Expression"}, time.Hour, durable.ErrRefused},
		{answer{"ValidationException", "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."}, time.Hour, durable.ErrDenied},
		{answer{"ResourceNotFoundException", "Schedule group x does not exist."}, time.Hour, durable.ErrDenied},
		{answer{"AccessDeniedException", "no"}, time.Hour, durable.ErrDenied},
		{answer{"ServiceQuotaExceededException", "no"}, time.Hour, durable.ErrDenied},
		{answer{"ThrottlingException", "no"}, time.Hour, nil},
		{answer{"InternalServerException", "no"}, time.Hour, nil},
	} {
		config := aws.Config{Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.local"), HTTPClient: c.answer,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
		delays := schedule.NewDelayQueue(sqs.NewFromConfig(config), "http://aws.local/delays", time.Now)
		timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(config), schedule.SchedulerConfig{QueueARN: "arn:aws:sqs:us-east-1:000000000000:delays", RoleARN: role, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		err = timers.Schedule(t.Context(), time.Now().Add(c.after), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
		isRefused, isDenied := errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrDenied)
		if err == nil || isRefused != errors.Is(c.want, durable.ErrRefused) || isDenied != errors.Is(c.want, durable.ErrDenied) {
			t.Errorf("%v after %v: got %v, want %v", c.answer, c.after, err, c.want)
		}
	}
}
