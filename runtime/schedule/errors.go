package schedule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/denial"
)

// classify wraps durable.ErrRefused or durable.ErrDenied around an error of SQS or EventBridge Scheduler that a retry
// cannot fix (API References, SendMessage and CreateSchedule, and "Common errors"). It returns every other error
// unchanged.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch code := api.ErrorCode(); {
	case code == "ValidationException":
		if message := api.ErrorMessage(); strings.Contains(message, "execution role") || strings.Contains(message, "Arn") {
			// The configuration is wrong, not the message. Or the role is so new that Scheduler cannot assume it yet.
			return fmt.Errorf("%w: %w", durable.ErrDenied, err)
		}
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case code == "InvalidMessageContents", code == "InvalidParameterValue", code == "MissingParameter":
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case code == "QueueDoesNotExist", code == "AWS.SimpleQueueService.NonExistentQueue", code == "ResourceNotFoundException",
		code == "ServiceQuotaExceededException", denial.Is(code):
		return fmt.Errorf("%w: %w", durable.ErrDenied, err)
	default:
		return err
	}
}
