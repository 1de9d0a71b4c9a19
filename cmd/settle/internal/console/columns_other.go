//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package console

import "os"

// columnsOf reports whether the file is a terminal, judging by its mode. The width is unknown on this system.
func columnsOf(file *os.File) (columns int, ok bool) {
	info, err := file.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
