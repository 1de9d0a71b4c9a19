package sqs

import "time"

// The inputs and outputs below are the members of SQS's JSON protocol. A pointer is a
// member whose absence differs from its zero value.

type (
	CreateQueueInput struct {
		QueueName  string
		Attributes map[string]string
		Tags       map[string]string `json:"tags"`
		Endpoint   string            `json:"-"` // where the URL of the queue begins
	}
	CreateQueueOutput struct{ QueueUrl string }

	GetQueueUrlInput struct {
		QueueName              string
		QueueOwnerAWSAccountId string
		Endpoint               string `json:"-"` // where the URL of the queue begins
	}
	GetQueueUrlOutput struct{ QueueUrl string }

	ListQueuesInput struct {
		QueueNamePrefix string
		NextToken       string
		MaxResults      *int
		Endpoint        string `json:"-"` // where the URLs of the queues begin
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

	// Empty is the output of the operations that answer nothing.
	Empty struct{}
)

type (
	// MessageAttribute is the value of a message attribute, or of a message system
	// attribute. SQS reserves the two lists for the future and refuses them.
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
	// Message is what SendMessage and an entry of SendMessageBatch have in common.
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
		SequenceNumber               string `json:",omitempty"` // of FIFO queues
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
		AttributeNames              []string // the older name of the next
		MessageSystemAttributeNames []string
		MessageAttributeNames       []string
		MaxNumberOfMessages         *int
		VisibilityTimeout           *int
		WaitTimeSeconds             *int
		ReceiveRequestAttemptId     string
	}
	ReceiveMessageOutput struct {
		Messages []ReceivedMessage `json:",omitempty"`
		// Wait is how long the caller asks to wait for a first message. The model itself
		// never waits: whoever serves it calls again within that time.
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
	// BatchOutput is the output of the batch operations: every entry is in one of the two.
	BatchOutput[R any] struct {
		Successful []R            `json:",omitempty"`
		Failed     []BatchFailure `json:",omitempty"`
	}
	// BatchFailure is an entry of a batch that failed alone.
	BatchFailure struct {
		Id          string
		Code        string
		Message     string
		SenderFault bool
	}
	// BatchID is an entry that succeeded and has nothing else to tell.
	BatchID struct{ Id string }
)
