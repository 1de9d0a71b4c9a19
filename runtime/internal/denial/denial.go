// Package denial lists AWS's error codes for missing permissions.
package denial

import "slices"

// codes holds error codes from the API References of SQS (SendMessage), EventBridge Scheduler (CreateSchedule) and Step
// Functions (SendTaskSuccess, StartExecution), and from "Common errors". SQS spells its codes differently in its two
// protocols.
var codes = []string{
	"AccessDenied", "AccessDeniedException", "InvalidAddress", "InvalidSecurity",
	"KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired",
	"KMS.AccessDeniedException", "KMS.DisabledException", "KMS.InvalidKeyUsageException", "KMS.InvalidStateException",
	"KMS.NotFoundException", "KMS.OptInRequired", "KmsAccessDeniedException", "KmsInvalidStateException",
}

// Is reports whether the error code means that a permission is missing, including the permission for the key of
// an encrypted resource.
func Is(code string) bool { return slices.Contains(codes, code) }
