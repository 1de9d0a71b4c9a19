package awslocal

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// sqsEvent is the event that Lambda passes to a function for a batch of messages (Lambda Developer Guide, "Using
// Lambda with Amazon SQS").
type sqsEvent struct {
	Records []sqsRecord
}

type sqsRecord struct {
	MessageID              string                        `json:"messageId"`
	ReceiptHandle          string                        `json:"receiptHandle"`
	Body                   string                        `json:"body"`
	Attributes             map[string]string             `json:"attributes"`
	MessageAttributes      map[string]sqsRecordAttribute `json:"messageAttributes"`
	MD5OfBody              string                        `json:"md5OfBody"`
	MD5OfMessageAttributes string                        `json:"md5OfMessageAttributes,omitempty"`
	EventSource            string                        `json:"eventSource"`
	EventSourceARN         string                        `json:"eventSourceARN"`
	AWSRegion              string                        `json:"awsRegion"`
}

type sqsRecordAttribute struct {
	StringValue      *string  `json:"stringValue,omitempty"`
	BinaryValue      []byte   `json:"binaryValue,omitempty"`
	StringListValues []string `json:"stringListValues"` // always empty
	BinaryListValues [][]byte `json:"binaryListValues"` // always empty
	DataType         string   `json:"dataType"`
}

func eventJSON(queue string, batch []sqs.ReceivedMessage) []byte {
	var event sqsEvent
	for _, message := range batch {
		attributes := make(map[string]sqsRecordAttribute)
		for name, a := range message.MessageAttributes {
			attributes[name] = sqsRecordAttribute{
				StringValue: a.StringValue, BinaryValue: a.BinaryValue, DataType: a.DataType,
				StringListValues: []string{}, BinaryListValues: [][]byte{},
			}
		}
		event.Records = append(event.Records, sqsRecord{
			MessageID:              message.MessageId,
			ReceiptHandle:          message.ReceiptHandle,
			Body:                   message.Body,
			Attributes:             message.Attributes,
			MessageAttributes:      attributes,
			MD5OfBody:              message.MD5OfBody,
			MD5OfMessageAttributes: message.MD5OfMessageAttributes,
			EventSource:            "aws:sqs",
			EventSourceARN:         sqs.QueueARN(queue),
			AWSRegion:              Region,
		})
	}
	return wire.Encode(event)
}

// batchItemFailures parses a function's answer and returns the IDs of the failed messages. An error means that the
// whole batch has failed (Lambda Developer Guide, "Implementing partial batch responses"):
//
//   - No answer, null, {}, and a missing, null or empty list mean full success.
//   - The batch fails if the answer is not JSON of the expected form, or if an itemIdentifier is missing, null, empty
//     or not in the batch.
//
// Names must match exactly. encoding/json alone would ignore their case.
func batchItemFailures(answer []byte, batch []sqs.ReceivedMessage) (map[string]bool, error) {
	failed := make(map[string]bool)
	if len(answer) == 0 {
		return failed, nil
	}
	var response map[string]json.RawMessage
	if err := json.Unmarshal(answer, &response); err != nil {
		return nil, fmt.Errorf("expected a JSON object with batchItemFailures: %w", err)
	}
	list, ok := response["batchItemFailures"]
	if !ok {
		return failed, nil
	}
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, fmt.Errorf("expected batchItemFailures to be a list of objects: %w", err)
	}
	inBatch := make(map[string]bool)
	for _, message := range batch {
		inBatch[message.MessageId] = true
	}
	for _, item := range items {
		var id *string
		if err := json.Unmarshal(item["itemIdentifier"], &id); err != nil || id == nil || *id == "" {
			return nil, errors.New("expected every entry of batchItemFailures to have an itemIdentifier")
		}
		if !inBatch[*id] {
			return nil, fmt.Errorf("expected an itemIdentifier to be a messageId of the batch, got %q", *id)
		}
		failed[*id] = true
	}
	return failed, nil
}
