package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSameExecutableGivesTheSameZip(t *testing.T) {
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
		if err := pack([]string{folder}, &out); err != nil {
			t.Fatal(err)
		}
		zipped, err := os.ReadFile(filepath.Join(folder, "consumer.zip"))
		if err != nil {
			t.Fatal(err)
		}
		return zipped, strings.ReplaceAll(out.String(), folder, "built")
	}
	first, line := packed(time.Unix(1_700_000_000, 0))
	second, again := packed(time.Unix(1_800_000_000, 0))
	if !bytes.Equal(first, second) || line != again {
		t.Errorf("expected the same zip and key, got %q and %q", line, again)
	}
	if !regexp.MustCompile(`^consumer consumer-[0-9a-f]{16}\.zip [0-9A-Za-z+/]{43}= built/consumer\.zip\n$`).MatchString(line) {
		t.Errorf("expected the function, its key, its checksum and its zip, got %q", line)
	}
	sum := sha256.Sum256(first)
	if checksum := strings.Fields(line)[2]; checksum != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("expected the SHA-256 of the zip in base64, got %s", checksum)
	}
	archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil || len(archive.File) != 1 {
		t.Fatalf("expected one file in the zip, got %v", err)
	}
	file := archive.File[0]
	if !file.Modified.Equal(packedAt) {
		t.Errorf("expected the modification time %s in the zip, got %s", packedAt, file.Modified)
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

func TestFirstFolderWins(t *testing.T) {
	t.Parallel()
	own, settle := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(own, "consumer"): "mine", filepath.Join(settle, "consumer"): "theirs", filepath.Join(settle, "delay"): "theirs",
	} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "bootstrap"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := pack([]string{own, settle}, &out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		got = append(got, fields[0]+" "+fields[3])
	}
	want := []string{"consumer " + filepath.Join(own, "consumer.zip"), "delay " + filepath.Join(settle, "delay.zip")}
	if !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

// A folder without functions is an error, even if another folder has some.
func TestFolderWithoutFunctionsIsRejected(t *testing.T) {
	t.Parallel()
	empty, built := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(built, "consumer"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(built, "consumer", "bootstrap"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folders := range [][]string{{empty}, {built, empty}} {
		if err := pack(folders, io.Discard); err == nil || !strings.Contains(err.Error(), "expected "+empty+"/<function>/bootstrap, found none: build them") {
			t.Errorf("expected an error with the advice to build them, got %v", err)
		}
	}
}
