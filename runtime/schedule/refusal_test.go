package schedule_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

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
