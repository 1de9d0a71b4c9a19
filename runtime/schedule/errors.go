package schedule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
)

// classify wraps durable.ErrRefused or durable.ErrDenied around an error of SQS or EventBridge Scheduler that a retry
// cannot fix (API References, SendMessage and CreateSchedule, and "Common errors"). It returns every other error
// unchanged.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "ValidationException":
		if message := api.ErrorMessage(); strings.Contains(message, "execution role") || strings.Contains(message, "Arn") {
			// The configuration is wrong, not the message. Also, a new role cannot be assumed for a while.
			return fmt.Errorf("%w: %w", durable.ErrDenied, err)
		}
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case "InvalidMessageContents", "InvalidParameterValue", "MissingParameter":
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "ResourceNotFoundException",
		"AccessDenied", "AccessDeniedException", "InvalidAddress", "InvalidSecurity",
		"KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired",
		"KMS.AccessDeniedException", "KMS.DisabledException", "KMS.InvalidKeyUsageException", "KMS.InvalidStateException",
		"KMS.NotFoundException", "KMS.OptInRequired", "ServiceQuotaExceededException":
		return fmt.Errorf("%w: %w", durable.ErrDenied, err)
	default:
		return err
	}
}
