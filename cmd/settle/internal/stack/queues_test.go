package stack

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra"
)

// attributesOf returns the attributes of a queue.
func attributesOf(t *testing.T, s *Stack, queue string) map[string]string {
	t.Helper()
	output, err := sqs.NewFromConfig(s.AWS()).GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(queue), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	return output.Attributes
}

// TestVisibilityTimeoutIsShorterThanTheDeduplicationPeriod compares the default visibility timeout with the template
// and with the five minutes in which SQS drops duplicates (SQS Developer Guide, "Using the Amazon SQS message
// deduplication ID"). If a consumer dies after a send, the retry must repeat the send within these minutes.
func TestVisibilityTimeoutIsShorterThanTheDeduplicationPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		hidden := attributesOf(t, s, Queue)["VisibilityTimeout"]
		if got, err := strconv.Atoi(hidden); err != nil || time.Duration(got)*time.Second >= 5*time.Minute {
			t.Errorf("got a visibility timeout of %s s, want less than 300", hidden)
		}
		functions, err := infra.Functions()
		if err != nil {
			t.Fatal(err)
		}
		if timeout := functions["consumer"].TimeoutSeconds; hidden != strconv.Itoa(6*timeout) {
			t.Errorf("got a visibility timeout of %s s, want six times the %d s of the template's consumer", hidden, timeout)
		}
	})
}
