package sfncallback_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sfncallback"
)

// refuser is an HTTP client for Step Functions. It counts the calls and fails each call with the code of its operation.
// It passes calls without a code to `next`, if that is set. In `codes`, a key such as "StartExecution #2" applies to
// the second call only.
type refuser struct {
	codes map[string]string
	next  aws.HTTPClient
	calls int
}

func (r *refuser) Do(request *http.Request) (*http.Response, error) {
	r.calls++
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	code := cmp.Or(r.codes[fmt.Sprintf("%s #%d", operation, r.calls)], r.codes[operation])
	if code == "" && r.next != nil {
		return r.next.Do(request)
	}
	body := `{"__type": "com.amazonaws.states#` + code + `", "message": "no"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func TestPermanentErrorsAreDistinguishedFromTransientOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		send, history string
		want          error // nil: neither ErrRefused nor ErrDenied
		calls         int
	}{
		{"InvalidOutput", "", durable.ErrRefused, 1},
		{"ValidationException", "", durable.ErrRefused, 1},
		{"AccessDeniedException", "", durable.ErrDenied, 1},
		{"KmsAccessDeniedException", "", durable.ErrDenied, 1},
		{"KmsInvalidStateException", "", durable.ErrDenied, 1},
		{"TaskTimedOut", "AccessDeniedException", durable.ErrDenied, 2},
		{"KmsThrottlingException", "", nil, 3},
		{"ThrottlingException", "", nil, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &refuser{codes: map[string]string{"SendTaskSuccess": c.send, "GetExecutionHistory": c.history}}
			callback := sfncallback.New(sfn.New(sfn.Options{Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.local"), HTTPClient: r,
				Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}))
			token := instances.Token{Name: "Wait", Value: "SECRET", Execution: "arn:aws:states:eu-central-1:123456789012:execution:m:e"}
			err := callback.Answer(t.Context(), token, instances.Answer{Output: []byte(`{}`)}, false)
			isRefused, isDenied := errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrDenied)
			if err == nil || isRefused != errors.Is(c.want, durable.ErrRefused) || isDenied != errors.Is(c.want, durable.ErrDenied) || r.calls != c.calls {
				t.Errorf("%s: got %v after %d calls, want %v after %d", c.send, err, r.calls, c.want, c.calls)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error contains the token: %v", err)
			}
		})
	}
}

// The execution comes from the producer's event and may be anything. Reading the history of anything else fails
// permanently (Step Functions API Reference, GetExecutionHistory). That must not block the instance.
func TestATaskWithAnInvalidExecutionDoesNotBlock(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"InvalidArn", "ExecutionDoesNotExist"} {
		r := &refuser{codes: map[string]string{"SendTaskSuccess": "TaskTimedOut", "GetExecutionHistory": code}}
		callback := sfncallback.New(sfn.New(sfn.Options{Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.local"), HTTPClient: r,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}))
		err := callback.Answer(t.Context(), instances.Token{Name: "Wait", Value: "SECRET", Execution: "e"}, instances.Answer{Output: []byte(`{}`)}, false)
		if err != nil || r.calls != 2 {
			t.Errorf("%s: got %v after %d calls, want the answer to count as given after 2 calls", code, err, r.calls)
		}
	}
}
