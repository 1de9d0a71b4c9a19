//go:build !unix

package console

import "os"

// IsUnread returns false: on this system, a closed reader is noticed only by writing.
func IsUnread(*os.File) bool { return false }
