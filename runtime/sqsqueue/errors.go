package sqsqueue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// Errors that this package's methods wrap. All others (throttling, time-outs, lost
// connections) leave open what has happened: try again.
var (
	// ErrRefused is returned by Send and Park when SQS will not take the message, however
	// often it is sent.
	ErrRefused = errors.New("refused by SQS: trying again cannot help")
	// ErrNoQueue is returned when the queue does not exist.
	ErrNoQueue = errors.New("no such queue: check its URL, the Region and the account")
	// ErrExpired is returned by Delay when the receipt no longer holds the message: its
	// visibility time-out has passed, and it may have been delivered to someone else.
	ErrExpired = errors.New("the receipt has expired: give the queue a longer visibility time-out")
)

// classify turns an answer of SQS into one of this package's errors, and leaves every other
// error as it is.
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
	default:
		return err
	}
}

// entryError is the error of one entry of a batch.
func entryError(entry types.BatchResultErrorEntry) error {
	fault := smithy.FaultServer
	if entry.SenderFault {
		fault = smithy.FaultClient
	}
	return &smithy.GenericAPIError{Code: aws.ToString(entry.Code), Message: aws.ToString(entry.Message), Fault: fault}
}
