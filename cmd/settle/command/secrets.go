package command

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/natefinch/atomic"
)

// secretsFile is the file in the data folder that keeps the generated secrets, as a JSON object of strings.
const secretsFile = "secrets.json"

// secretBytesMin is the minimum length of a secret in the file.
const secretBytesMin = 16

// secrets are the generated secrets of dev.
type secrets struct {
	// folder is the data folder that keeps the secrets. If it is empty, the secrets are lost when the process ends.
	folder string
	// byName has all known secrets. It is nil until get is called.
	byName map[string]string
	// made are the names of new secrets that are not in the folder yet.
	made []string
	// failed is the error from reading the folder.
	failed error
}

// get returns the secret of that name. It generates a missing secret.
func (s *secrets) get(name string) (string, error) {
	if s.byName == nil {
		if s.byName, s.failed = s.read(); s.failed != nil {
			return "", s.failed
		}
	}
	if s.byName[name] == "" {
		s.byName[name] = rand.Text()
		s.made = append(s.made, name)
	}
	return s.byName[name], nil
}

// read returns the secrets in the folder, and restricts the file's mode to the owner.
func (s *secrets) read() (map[string]string, error) {
	known := map[string]string{}
	if s.folder == "" {
		return known, nil
	}
	path := filepath.Join(s.folder, secretsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = os.Chmod(path, 0o600) // The mode of a copied file may differ.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of the data folder: %w", err)
	}
	fits := json.Unmarshal(text, &known) == nil && known != nil // The error is dropped because its text may quote a secret.
	for _, secret := range known {
		fits = fits && len(secret) >= secretBytesMin
	}
	if !fits {
		return nil, fmt.Errorf("%s: expected a JSON object of generated secrets, each a string of at least %d bytes, got something else; repair the file, or remove it to generate new secrets",
			path, secretBytesMin)
	}
	return known, nil
}

// keep adds the generated secrets to the folder, which this process must own. It replaces the secrets file atomically.
func (s *secrets) keep() error {
	if s.folder == "" || len(s.made) == 0 {
		return nil
	}
	known, err := s.read()
	if err != nil {
		return err
	}
	for _, name := range s.made {
		if known[name] != "" {
			return fmt.Errorf("%s: another process has generated secrets at the same time: start again", filepath.Join(s.folder, secretsFile))
		}
		known[name] = s.byName[name]
	}
	text, err := json.MarshalIndent(known, "", "  ")
	if err == nil {
		err = atomic.WriteFile(filepath.Join(s.folder, secretsFile), bytes.NewReader(append(text, '\n'))) // WriteFile creates files that only their owner can read.
	}
	if err != nil {
		return fmt.Errorf("storing the secrets in the data folder: %w", err)
	}
	return nil
}
