package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
)

// TestFailedMessageFailsNoOtherMessage makes the handler fail for one message. All other messages must be handled once
// and not redelivered.
func TestFailedMessageFailsNoOtherMessage(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	tele, ctx, current := withTraces(t, &log)
	var handled []string
	handler := tele.Each(func(_ context.Context, batch lambdaevents.SQSEvent) (answer lambdaevents.SQSEventResponse, err error) {
		id := batch.Records[0].MessageId
		handled = append(handled, id)
		switch id {
		case "broken":
			return answer, errors.New("no answer")
		case "refused":
			answer.BatchItemFailures = []lambdaevents.SQSBatchItemFailure{{ItemIdentifier: id}}
		}
		return answer, nil
	})
	var batch lambdaevents.SQSEvent
	for _, id := range []string{"first", "broken", "refused", "last"} {
		batch.Records = append(batch.Records, lambdaevents.SQSMessage{
			MessageId: id, EventSourceARN: "arn:of:the:queue", Body: "canary", Attributes: map[string]string{"ApproximateReceiveCount": "3"},
		})
	}
	answer, err := handler(ctx, batch)
	want := []lambdaevents.SQSBatchItemFailure{{ItemIdentifier: "broken"}, {ItemIdentifier: "refused"}}
	if err != nil || !slices.Equal(answer.BatchItemFailures, want) || current.counts[retried] != 2 {
		t.Errorf("got %+v, %v and %d retried, want %+v", answer, err, current.counts[retried], want)
	}
	if !slices.Equal(handled, []string{"first", "broken", "refused", "last"}) {
		t.Errorf("got %q handled, want each once", handled)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
		t.Fatalf("%v in %s, want one line", err, log.String())
	}
	if line["level"] != "WARN" || line["error"] != "no answer" || line["message_id"] != "broken" || line["queue"] != "arn:of:the:queue" || line["receive_count"] != "3" {
		t.Errorf("got the log line %v, want the failed message", line)
	}
}
