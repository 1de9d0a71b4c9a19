//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package console

import "os"

// columnsOf reports whether the file is a terminal, as far as its mode tells; how wide it is, is not known here.
func columnsOf(file *os.File) (columns int, ok bool) {
	info, err := file.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
