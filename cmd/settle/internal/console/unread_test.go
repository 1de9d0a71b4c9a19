//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package console

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAPipeWithoutAReaderIsUnread(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if IsUnread(w) {
		t.Error("expected a pipe to be read that has a reader, and nothing in it")
	}
	if _, err := w.WriteString("not read yet"); err != nil || IsUnread(w) {
		t.Errorf("expected a pipe to be read whose reader is slow, got %v", err)
	}
	if err := r.Close(); err != nil || !IsUnread(w) {
		t.Errorf("expected a pipe without a reader to be unread, got %v", err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if IsUnread(file) {
		t.Error("expected a file to take what is written")
	}
	if err := file.Close(); err != nil || IsUnread(file) {
		t.Errorf("expected nothing to be known of a file that is closed, got %v", err)
	}
}
