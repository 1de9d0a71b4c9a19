package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTheSameExecutableGivesTheSameZip(t *testing.T) {
	t.Parallel()
	packed := func(built time.Time) (zipped []byte, line string) {
		folder := t.TempDir()
		executable := filepath.Join(folder, "consumer", "bootstrap")
		if err := os.Mkdir(filepath.Dir(executable), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(executable, []byte("\x7fELF of the consumer"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(executable, built, built); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := pack(folder, &out); err != nil {
			t.Fatal(err)
		}
		zipped, err := os.ReadFile(filepath.Join(folder, "consumer.zip"))
		if err != nil {
			t.Fatal(err)
		}
		return zipped, out.String()
	}
	first, line := packed(time.Unix(1_700_000_000, 0))
	second, again := packed(time.Unix(1_800_000_000, 0))
	if !bytes.Equal(first, second) || line != again {
		t.Errorf("expected the same zip and key, got %q and %q", line, again)
	}
	if !regexp.MustCompile(`^consumer consumer-[0-9a-f]{16}\.zip\n$`).MatchString(line) {
		t.Errorf("expected the function and its key, got %q", line)
	}
	archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil || len(archive.File) != 1 {
		t.Fatalf("expected one file in the zip, got %v", err)
	}
	file := archive.File[0]
	if !file.Modified.Equal(packedAt) {
		t.Errorf("expected the zip to tell %s and not when it was made, got %s", packedAt, file.Modified)
	}
	content, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(content)
	if err != nil || string(got) != "\x7fELF of the consumer" || file.Name != "bootstrap" || file.Mode().Perm() != 0o755 {
		t.Errorf("expected the executable as bootstrap, got %q in %s with mode %s, %v", got, file.Name, file.Mode(), err)
	}
}

func TestAFolderWithoutFunctionsIsRefused(t *testing.T) {
	t.Parallel()
	if err := pack(t.TempDir(), io.Discard); err == nil || !strings.Contains(err.Error(), "run make functions") {
		t.Errorf("expected to be told to build them, got %v", err)
	}
}
