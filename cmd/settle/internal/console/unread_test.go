//go:build unix

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
		t.Error("expected an empty pipe with a reader not to be unread")
	}
	if _, err := w.WriteString("not read yet"); err != nil || IsUnread(w) {
		t.Errorf("expected a pipe with a slow reader not to be unread, got %v", err)
	}
	if err := r.Close(); err != nil || !IsUnread(w) {
		t.Errorf("expected a pipe without a reader to be unread, got %v", err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if IsUnread(file) {
		t.Error("expected a file not to be unread")
	}
	if err := file.Close(); err != nil || IsUnread(file) {
		t.Errorf("expected false for a closed file, got %v", err)
	}
}
