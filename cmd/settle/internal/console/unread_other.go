//go:build !unix

package console

import "os"

// IsUnread returns false. On this system, only a failed write shows that the other end is closed.
func IsUnread(*os.File) bool { return false }
