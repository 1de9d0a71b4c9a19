package sqsqueue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/denial"
)

// Errors that this package's methods wrap. After any other error (throttling, timeouts, lost connections) the call
// may or may not have succeeded: retry it.
var (
	// ErrRefused is returned by Send and Park if SQS will never accept the message.
	ErrRefused = fmt.Errorf("refused by SQS: %w", durable.ErrRefused)
	// ErrNoQueue is returned if the queue does not exist.
	ErrNoQueue = fmt.Errorf("no such queue: check its URL, the Region and the account (%w)", durable.ErrDenied)
	// ErrDenied is returned if a permission is missing, including the permission for the key of an encrypted
	// queue.
	ErrDenied = fmt.Errorf("denied by SQS: check the policies of role, queue and key (%w)", durable.ErrDenied)
	// ErrExpired is returned by Delay if the receipt is no longer valid: the visibility timeout has passed, and
	// another consumer may have received the message.
	ErrExpired = errors.New("the receipt has expired, and another consumer may have received the message")
)

// classify converts an error of SQS to one of this package's errors. It returns every other error unchanged.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch code := api.ErrorCode(); {
	case code == "QueueDoesNotExist", code == "AWS.SimpleQueueService.NonExistentQueue":
		return fmt.Errorf("%w: %w", ErrNoQueue, err)
	case code == "ReceiptHandleIsInvalid", code == "MessageNotInflight", code == "AWS.SimpleQueueService.MessageNotInflight",
		code == "InvalidParameterValue" && strings.Contains(api.ErrorMessage(), "ReceiptHandle"):
		return fmt.Errorf("%w: %w", ErrExpired, err)
	case code == "InvalidMessageContents", code == "InvalidParameterValue", code == "MissingParameter", code == "InvalidAttributeValue":
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case denial.Is(code):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	default:
		return err
	}
}

// entryError returns the error of one entry of a batch.
func entryError(entry types.BatchResultErrorEntry) error {
	fault := smithy.FaultServer
	if entry.SenderFault {
		fault = smithy.FaultClient
	}
	return &smithy.GenericAPIError{Code: aws.ToString(entry.Code), Message: aws.ToString(entry.Message), Fault: fault}
}
