package sqs

import "time"

// The inputs and outputs below have the members of SQS's JSON protocol. A member is a pointer if its absence and its
// zero value have different meanings.

type (
	CreateQueueInput struct {
		QueueName  string
		Attributes map[string]string
		Tags       map[string]string `json:"tags"`
		Endpoint   string            `json:"-"` // start of the queue URL
	}
	CreateQueueOutput struct{ QueueUrl string }

	GetQueueUrlInput struct {
		QueueName              string
		QueueOwnerAWSAccountId string
		Endpoint               string `json:"-"` // start of the queue URL
	}
	GetQueueUrlOutput struct{ QueueUrl string }

	ListQueuesInput struct {
		QueueNamePrefix string
		NextToken       string
		MaxResults      *int
		Endpoint        string `json:"-"` // start of the queue URLs
	}
	ListQueuesOutput struct {
		QueueUrls []string `json:",omitempty"`
		NextToken string   `json:",omitempty"`
	}

	GetQueueAttributesInput struct {
		QueueUrl       string
		AttributeNames []string
	}
	GetQueueAttributesOutput struct {
		Attributes map[string]string `json:",omitempty"`
	}
	SetQueueAttributesInput struct {
		QueueUrl   string
		Attributes map[string]string
	}

	DeleteQueueInput struct{ QueueUrl string }
	PurgeQueueInput  struct{ QueueUrl string }

	TagQueueInput struct {
		QueueUrl string
		Tags     map[string]string
	}
	UntagQueueInput struct {
		QueueUrl string
		TagKeys  []string
	}
	ListQueueTagsInput  struct{ QueueUrl string }
	ListQueueTagsOutput struct {
		Tags map[string]string `json:",omitempty"`
	}

	// Empty is the output of operations without output members.
	Empty struct{}
)

type (
	// MessageAttribute is the value of a message attribute or message system attribute. SQS reserves the two lists
	// for future use and rejects them.
	MessageAttribute struct {
		DataType         string
		StringValue      *string  `json:",omitempty"`
		BinaryValue      []byte   `json:",omitempty"`
		StringListValues []string `json:",omitempty"`
		BinaryListValues [][]byte `json:",omitempty"`
	}

	SendMessageInput struct {
		QueueUrl string
		Message
	}
	// Message holds the members that SendMessage and the entries of SendMessageBatch share.
	Message struct {
		MessageBody             string
		DelaySeconds            *int
		MessageAttributes       map[string]MessageAttribute
		MessageSystemAttributes map[string]MessageAttribute
		MessageDeduplicationId  string
		MessageGroupId          string
	}
	SendMessageOutput struct {
		MessageId                    string
		MD5OfMessageBody             string
		MD5OfMessageAttributes       string `json:",omitempty"`
		MD5OfMessageSystemAttributes string `json:",omitempty"`
		SequenceNumber               string `json:",omitempty"` // FIFO queues only
	}

	SendMessageBatchInput struct {
		QueueUrl string
		Entries  []SendMessageBatchEntry
	}
	SendMessageBatchEntry struct {
		Id string
		Message
	}
	SendMessageBatchResult struct {
		Id string
		SendMessageOutput
	}

	ReceiveMessageInput struct {
		QueueUrl                    string
		AttributeNames              []string // the older name of MessageSystemAttributeNames
		MessageSystemAttributeNames []string
		MessageAttributeNames       []string
		MaxNumberOfMessages         *int
		VisibilityTimeout           *int
		WaitTimeSeconds             *int
		ReceiveRequestAttemptId     string
		// PayloadBytesMax limits the total size of the messages' records in a Lambda function's payload. The first
		// message is received whatever its size. Only pollers set it. 0 means no limit.
		PayloadBytesMax int `json:"-"`
	}
	ReceiveMessageOutput struct {
		Messages []ReceivedMessage `json:",omitempty"`
		// Wait is how long the caller wants to wait for a first message. The model never waits. Its server repeats
		// the call until that time has passed.
		Wait time.Duration `json:"-"`
	}
	// ReceivedMessage is a message as its receiver sees it.
	ReceivedMessage struct {
		MessageId              string
		ReceiptHandle          string
		Body                   string
		MD5OfBody              string
		Attributes             map[string]string           `json:",omitempty"`
		MessageAttributes      map[string]MessageAttribute `json:",omitempty"`
		MD5OfMessageAttributes string                      `json:",omitempty"`
	}

	DeleteMessageInput struct {
		QueueUrl      string
		ReceiptHandle string
	}
	DeleteMessageBatchInput struct {
		QueueUrl string
		Entries  []DeleteMessageBatchEntry
	}
	DeleteMessageBatchEntry struct {
		Id            string
		ReceiptHandle string
	}

	ChangeMessageVisibilityInput struct {
		QueueUrl          string
		ReceiptHandle     string
		VisibilityTimeout *int
	}
	ChangeMessageVisibilityBatchInput struct {
		QueueUrl string
		Entries  []ChangeMessageVisibilityBatchEntry
	}
	ChangeMessageVisibilityBatchEntry struct {
		Id                string
		ReceiptHandle     string
		VisibilityTimeout *int
	}
)

type (
	// BatchOutput is the output of the batch operations. Every entry is in one of the two lists.
	BatchOutput[R any] struct {
		Successful []R            `json:",omitempty"`
		Failed     []BatchFailure `json:",omitempty"`
	}
	// BatchFailure reports a failed entry of a batch.
	BatchFailure struct {
		Id          string
		Code        string
		Message     string
		SenderFault bool
	}
	// BatchID reports a successful entry of an operation that returns nothing else.
	BatchID struct{ Id string }
)
