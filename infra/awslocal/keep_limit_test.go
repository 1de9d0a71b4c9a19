//go:build linux || darwin

package awslocal_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// limitFiles limits the size of files. From now on, a write that extends a file beyond the limit fails, as on a full
// disk.
func limitFiles(bytes string) error {
	if bytes == "" {
		return nil
	}
	limit, err := strconv.ParseUint(bytes, 10, 64)
	if err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit})
}

func TestKeep_full_disk_fails_every_call_but_loses_no_answered_call(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, dir, serveBytesMax+"=300000")
	q := c.createFIFO("queue.fifo", nil)
	var answered []string
	var failed error
	for i := 0; failed == nil && i < 1000; i++ {
		body := strconv.Itoa(i) + strings.Repeat("x", 10_000)
		if _, failed = q.trySend("group", body); failed == nil {
			answered = append(answered, body)
		}
	}
	wantCode(t, failed, "InternalFailure")
	wantMessage(t, failed, "cannot write the data folder "+dir)
	if len(answered) < 5 {
		t.Errorf("%d messages were accepted before the disk was full, expected a few", len(answered))
	}
	_, failed = q.tryReceive(t.Context())
	wantMessage(t, failed, "cannot write the data folder "+dir)

	c.kill()
	q = startChild(t, dir).queue("queue.fifo")
	for _, body := range answered {
		messages := q.receive()
		wantBodies(t, messages, body)
		q.delete(messages...)
	}
}
