//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package console

import (
	"os"
	"syscall"
	"unsafe"
)

// columnsOf returns the width of a terminal. ok is false if the file is not a terminal. It does not rely on the file's
// mode, because /dev/null is a character device too.
func columnsOf(file *os.File) (columns int, ok bool) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, false
	}
	var size struct{ rows, columns, x, y uint16 } // struct winsize of ioctl_tty(2)
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	})
	return int(size.columns), err == nil && failed == 0
}
