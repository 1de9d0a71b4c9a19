package stack

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/awslocal"
)

const (
	// visibilityTimeout is six times the functions' time-out, as AWS advises.
	visibilityTimeout = 6 * functionTimeout
	// retention is how long a queue keeps a message: the longest that SQS allows.
	retention = 14 * 24 * time.Hour
	// receivesMax is high because it is the last resort: parking is the runtime's decision.
	receivesMax = 1000
	// delayReceivesMax is how often a standard queue offers a message that cannot be forwarded.
	delayReceivesMax = 10
)

// queueURLs are the URLs of the queues, as clients in the process see them.
type queueURLs struct{ fifo, deadLetter, delay string }

// createQueues creates the queues, the dead-letter queues first.
func createQueues(ctx context.Context, client *sqs.Client) (urls queueURLs, err error) {
	fifo := map[string]string{string(types.QueueAttributeNameFifoQueue): "true"}
	for _, queue := range []struct {
		name, deadLetter string
		receivesMax      int
		attributes       map[string]string
		url              *string
	}{
		{DeadLetterQueue, "", 0, fifo, &urls.deadLetter},
		{Queue, DeadLetterQueue, receivesMax, fifo, &urls.fifo},
		{DelayDeadLetterQueue, "", 0, nil, new(string)},
		{DelayQueue, DelayDeadLetterQueue, delayReceivesMax, nil, &urls.delay},
		{ExecutionsDeadLetterQueue, "", 0, nil, new(string)},
		{ExecutionsQueue, ExecutionsDeadLetterQueue, delayReceivesMax, nil, new(string)},
	} {
		attributes := map[string]string{
			string(types.QueueAttributeNameVisibilityTimeout):      seconds(visibilityTimeout),
			string(types.QueueAttributeNameMessageRetentionPeriod): seconds(retention),
		}
		for name, value := range queue.attributes {
			attributes[name] = value
		}
		if queue.deadLetter != "" {
			attributes[string(types.QueueAttributeNameRedrivePolicy)] = fmt.Sprintf(
				`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, queueARN(queue.deadLetter), queue.receivesMax)
		}
		created, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue.name, Attributes: attributes})
		if err != nil {
			return queueURLs{}, fmt.Errorf("creating queue %s: %w", queue.name, err)
		}
		*queue.url = aws.ToString(created.QueueUrl)
	}
	return urls, nil
}

func queueARN(name string) string {
	return "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + name
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
