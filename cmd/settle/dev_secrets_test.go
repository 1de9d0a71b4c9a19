package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/machines/enrich"
)

// secretShown returns the secret that dev prints.
func secretShown(t *testing.T, dev devRun) string {
	t.Helper()
	_, secret, _ := strings.Cut(line(t, strings.Join(dev.welcome, "\n"), "signed with the secret "), "signed with the secret ")
	return secret
}

// keptSecrets returns the secrets in the folder's file.
func keptSecrets(t *testing.T, dir string) map[string]string {
	t.Helper()
	path := filepath.Join(dir, "secrets.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]string
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("expected a file that only its owner can read, got the mode %v", mode)
	}
	return kept
}

func TestDevKeepsGeneratedSecretsInTheDataFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	first := startDev(t, "--data", dir)
	secret := secretShown(t, first)
	first.end(t)
	kept := keptSecrets(t, dir)
	if names := slices.Sorted(maps.Keys(kept)); strings.Join(names, " ") != "enrich-callback-key github-secret signup-code-key" {
		t.Errorf("expected the three secrets of this module's machines, got %q", names)
	}
	if kept["github-secret"] != secret || len(secret) != 26 || kept["enrich-callback-key"] == secret || kept["signup-code-key"] == secret {
		t.Errorf("expected the printed secret, %q, and two others, got %q", secret, kept)
	}

	if err := os.Chmod(filepath.Join(dir, "secrets.json"), 0o644); err != nil { // a copied file may have this mode
		t.Fatal(err)
	}
	given := startDev(t, "--data", dir, "--github-secret", "one-of-mine")
	if got := secretShown(t, given); got != "that was given" {
		t.Errorf("expected the given secret to be used, got %q", got)
	}
	given.end(t)
	again := startDev(t, "--data", dir)
	if got := secretShown(t, again); got != secret {
		t.Errorf("expected the secret %q of the folder, got %q", secret, got)
	}
	again.end(t)
	if got := keptSecrets(t, dir); !maps.Equal(got, kept) {
		t.Errorf("expected unchanged secrets %q, got %q", kept, got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("expected the data file and the secrets, got %v and %v", entries, err)
	}

	elsewhere := startDev(t)
	if got := secretShown(t, elsewhere); got == secret || len(got) != 26 {
		t.Errorf("expected another secret without the folder, got %q", got)
	}
	elsewhere.end(t)
}

func TestMachinesUseTheKeptSecrets(t *testing.T) {
	t.Parallel()
	madeUp := func(name string) (string, error) { return "kept-for-" + name, nil }
	h := &hosted{flags: devFlags{JobPickUpTimeout: 1, JobLaunchesMax: 1, JobTimeLimit: 1, SignupDeadline: 1}}
	gateway, err := h.prepare(madeUp)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("kept-for-github-secret"))
	if err := gateway.Webhooks["github"].Verify(http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}, nil); err != nil {
		t.Errorf("expected the kept secret for GitHub, got %v", err)
	}
	env := h.consumerEnv("http://127.0.0.1:1")
	for _, want := range []string{"SETTLE_SIGNUP_CODE_KEY=kept-for-signup-code-key", "SETTLE_ENRICH_CALLBACK_KEY=kept-for-enrich-callback-key"} {
		if !slices.Contains(env, want) {
			t.Errorf("expected %s, got %q", want, env)
		}
	}
	_, err = (&hosted{flags: h.flags}).prepare(func(string) (string, error) { return "", errors.New("the disk is full") })
	if err == nil || err.Error() != "the disk is full" {
		t.Errorf("expected an error about storing the secrets, got %v", err)
	}
}

func TestDevAcceptsPreviousSecrets(t *testing.T) {
	t.Parallel()
	generate := func(name string) (string, error) { return "kept-for-" + name, nil }
	const previousKey = "the previous callback key"
	h := &hosted{flags: devFlags{JobPickUpTimeout: 1, JobLaunchesMax: 1, JobTimeLimit: 1, SignupDeadline: 1, GitHubSecretPrevious: "the previous secret", EnrichCallbackKeyPrevious: previousKey}}
	gateway, err := h.prepare(generate)
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]bool{"kept-for-github-secret": true, "the previous secret": true, "an older secret": false, "": false} {
		mac := hmac.New(sha256.New, []byte(secret))
		if err := gateway.Webhooks["github"].Verify(http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}, nil); (err == nil) != want {
			t.Errorf("signed by %q: accepted should be %t, got %v", secret, want, err)
		}
	}
	for key, want := range map[string]bool{"kept-for-enrich-callback-key": true, previousKey: true, "an older callback key": false} {
		address := enrich.Callbacks{Key: []byte(key)}.Address("enrich/1", time.Unix(7, 0))
		if _, ok := gateway.Callbacks["enricher"].Verify("enrich/1", "7", address[strings.LastIndexByte(address, '/')+1:]); ok != want {
			t.Errorf("an address by %q: accepted should be %t, got %t", key, want, ok)
		}
	}
	if env := h.consumerEnv("http://127.0.0.1:1"); !slices.Contains(env, "SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS="+previousKey) {
		t.Errorf("expected the previous key in the consumer's environment, got %q", env)
	}
	h.flags.EnrichCallbackKeyPrevious = "short"
	if _, err := h.prepare(generate); err == nil || !strings.Contains(err.Error(), "expected a PreviousKey of at least 16 bytes") {
		t.Errorf("expected an error about the short key, got %v", err)
	}
}

// firstWord is a writer that calls a function at each write.
type firstWord func()

func (f firstWord) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// startThatFails runs dev on a folder. If dev starts unexpectedly, its first output stops it.
func startThatFails(t *testing.T, dir string) answer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errOut bytes.Buffer
	code := command.Run(ctx, settle(), command.Process{Out: firstWord(stop), Err: &errOut, Program: "settle"}, []string{"dev", "--aws-port", "0", "--http-port", "0", "--data", dir})
	return answer{err: errOut.String(), code: code}
}

func TestDevReportsUnusableSecretsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secrets.json")
	damaged := "settle: " + path + ": expected a JSON object of generated secrets, each a string of at least 16 bytes, got something else; repair the file, or remove it to generate new secrets\n"
	for text, want := range map[string]string{`{"github-secret": "SHORT`: damaged, "null": damaged, "": damaged, `{"github-secret": 1}`: damaged, `{"enrich-callback-key": "short"}`: damaged} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := startThatFails(t, dir)
		if got.code != command.ExitFailed || got.err != want {
			t.Errorf("%q: expected exit code 1 and %q, got %d and %q", text, want, got.code, got.err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	got := user{t: t}.run("dev", "--data", dir, "--enrich-callback-key", "short")
	if entries, err := os.ReadDir(dir); got.code != command.ExitUsage || err != nil || len(entries) != 0 {
		t.Errorf("expected exit code 2 and nothing left behind, got %d, %q, %v and %v", got.code, got.err, entries, err)
	}
	running := startDev(t, "--data", dir)
	kept := keptSecrets(t, dir)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := startThatFails(t, dir); got.code != command.ExitFailed || !strings.Contains(got.err, "in use by another process") {
		t.Errorf("expected exit code 1 because the folder is in use, got %d and %q", got.code, got.err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || len(kept) != 3 {
		t.Errorf("expected no secrets from a process without access to the folder, got %v and %q", err, kept)
	}
	running.end(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got = startThatFails(t, file)
	if got.code != command.ExitFailed || !strings.HasPrefix(got.err, "settle: reading the secrets of the data folder: ") {
		t.Errorf("expected exit code 1 because the path is not a folder, got %d and %q", got.code, got.err)
	}
}
