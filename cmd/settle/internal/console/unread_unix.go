//go:build unix

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsUnread reports whether a write to the file would fail because the file is a pipe, a socket or a terminal whose
// other end is closed. It writes nothing and does not block.
func IsUnread(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		// For a pipe without a reader, Linux reports POLLERR, and other systems report POLLHUP (poll(2)). Darwin reports only
		// requested events.
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, failed := unix.Poll(fds, 0)
		closed = failed == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && closed
}
