package command

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// secretsFile is the file of a data folder that has the secrets that were made up for it: an object of texts.
const secretsFile = "secrets.json"

// secrets are those that dev makes up.
type secrets struct {
	// folder is where they are kept; empty means that they end with the process.
	folder string
	// byName are those that are known; nil before the first one is asked for.
	byName map[string]string
	// failed is why they cannot be kept.
	failed error
}

// get returns the secret of that name, and makes it up if there is none.
func (s *secrets) get(name string) (string, error) {
	if s.byName == nil {
		if s.failed = s.read(); s.failed != nil {
			return "", s.failed
		}
	}
	if s.byName[name] == "" {
		s.byName[name] = rand.Text()
		s.failed = s.write()
	}
	return s.byName[name], s.failed
}

func (s *secrets) read() error {
	known := map[string]string{}
	path := filepath.Join(s.folder, secretsFile)
	if s.folder != "" {
		switch text, err := os.ReadFile(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("reading the secrets of the data folder: %w", err)
		case json.Unmarshal(text, &known) != nil || known == nil: // Its error would quote what may be a secret.
			return fmt.Errorf("%s: expected a JSON object of texts, the secrets that were made up, got something else; mend it, or remove it to have new ones made up", path)
		}
	}
	s.byName = known
	return nil
}

// write replaces the file as a whole, so that no crash leaves half of one.
func (s *secrets) write() (err error) {
	if s.folder == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping the secrets in the data folder: %w", err)
		}
	}()
	text, err := json.MarshalIndent(s.byName, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(s.folder, "*."+secretsFile) // Readable for its owner alone.
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(s.folder, secretsFile))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}
