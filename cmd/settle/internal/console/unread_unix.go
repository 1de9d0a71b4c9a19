//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsUnread reports whether a file is a pipe, a socket or a terminal whose other end is closed: a write would fail, and end the
// process if it is standard output. It writes nothing and does not wait.
func IsUnread(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		// Linux says POLLERR of a pipe without a reader, others POLLHUP (poll(2)). Darwin tells nothing of what it is not asked for.
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, failed := unix.Poll(fds, 0)
		closed = failed == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && closed
}
