package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// visibilityTimeouts is the visibility timeout of a queue in multiples of the function's timeout, as AWS advises.
	visibilityTimeouts = 6
	// retention is the longest message retention that SQS allows.
	retention = 14 * 24 * time.Hour
	// receivesMax is the largest maxReceiveCount that SQS allows. The redrive policy is the last resort: the runtime
	// decides what to park, and messages that cannot be forwarded wait for an outage to end.
	receivesMax = 1000
)

// queueURLs are the URLs of the queues for clients in this process.
type queueURLs struct{ fifo, deadLetter, delay string }

// createQueues creates the queues, the dead-letter queues first. Existing queues of a data folder get the current
// attributes.
func createQueues(ctx context.Context, client *sqs.Client, visibilityTimeout time.Duration) (urls queueURLs, err error) {
	fifo := map[string]string{string(types.QueueAttributeNameFifoQueue): "true"}
	for _, queue := range []struct {
		name, deadLetter string
		attributes       map[string]string
		url              *string
	}{
		{DeadLetterQueue, "", fifo, &urls.deadLetter},
		{Queue, DeadLetterQueue, fifo, &urls.fifo},
		{DelayDeadLetterQueue, "", nil, new(string)},
		{DelayQueue, DelayDeadLetterQueue, nil, &urls.delay},
		{ExecutionsDeadLetterQueue, "", nil, new(string)},
		{ExecutionsQueue, ExecutionsDeadLetterQueue, nil, new(string)},
	} {
		attributes := map[string]string{
			string(types.QueueAttributeNameVisibilityTimeout):      seconds(visibilityTimeout),
			string(types.QueueAttributeNameMessageRetentionPeriod): seconds(retention),
		}
		maps.Copy(attributes, queue.attributes)
		if queue.deadLetter != "" {
			attributes[string(types.QueueAttributeNameRedrivePolicy)] = fmt.Sprintf(
				`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn("sqs", queue.deadLetter), receivesMax)
		}
		address, err := createQueue(ctx, client, queue.name, attributes)
		if err != nil {
			return queueURLs{}, fmt.Errorf("creating queue %s: %w", queue.name, err)
		}
		*queue.url = address
	}
	return urls, nil
}

// createQueue creates the queue or sets the attributes of the existing one. It returns the queue's URL.
func createQueue(ctx context.Context, client *sqs.Client, name string, attributes map[string]string) (string, error) {
	created, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	var exists *types.QueueNameExists
	if !errors.As(err, &exists) {
		if err != nil {
			return "", err
		}
		return aws.ToString(created.QueueUrl), nil
	}
	found, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", err
	}
	// FifoQueue cannot be set on an existing queue. The name implies it.
	settable := maps.Clone(attributes)
	delete(settable, string(types.QueueAttributeNameFifoQueue))
	_, err = client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: found.QueueUrl, Attributes: settable})
	return aws.ToString(found.QueueUrl), err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
