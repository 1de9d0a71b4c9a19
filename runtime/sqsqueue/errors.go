package sqsqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
)

// Errors that this package's methods wrap. All others (throttling, time-outs, lost
// connections) leave open what has happened: try again.
var (
	// ErrRefused is returned by Send and Park when SQS will not take the message, however
	// often it is sent.
	ErrRefused = fmt.Errorf("refused by SQS: %w", durable.ErrRefused)
	// ErrNoQueue is returned when the queue does not exist.
	ErrNoQueue = fmt.Errorf("no such queue: check its URL, the Region and the account (%w)", durable.ErrDenied)
	// ErrDenied is returned when a permission is missing, that to use the key of an encrypted queue included.
	ErrDenied = fmt.Errorf("denied by SQS: check the policies of role, queue and key (%w)", durable.ErrDenied)
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
	case slices.Contains(denials, code):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	default:
		return err
	}
}

// denials are the errors for want of a permission (API Reference, SendMessage and "Common errors"), in the spellings of
// both protocols.
var denials = []string{
	"AccessDenied", "AccessDeniedException", "InvalidAddress", "InvalidSecurity",
	"KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired",
	"KMS.AccessDeniedException", "KMS.DisabledException", "KMS.InvalidKeyUsageException", "KMS.InvalidStateException",
	"KMS.NotFoundException", "KMS.OptInRequired",
}

// entryError is the error of one entry of a batch.
func entryError(entry types.BatchResultErrorEntry) error {
	fault := smithy.FaultServer
	if entry.SenderFault {
		fault = smithy.FaultClient
	}
	return &smithy.GenericAPIError{Code: aws.ToString(entry.Code), Message: aws.ToString(entry.Message), Fault: fault}
}
