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

// secretBytesMin is the length of the shortest secret that the file may have.
const secretBytesMin = 16

// secrets are those that dev makes up.
type secrets struct {
	// folder is where they are kept; empty means that they end with the process.
	folder string
	// byName are those that are known; nil before the first one is asked for.
	byName map[string]string
	// made are the names of those that are in byName and not in the folder.
	made []string
	// failed is why they cannot be read.
	failed error
}

// get returns the secret of that name, and makes it up if there is none.
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

// read returns what is in the folder, and sees to it that only its owner may.
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
		err = os.Chmod(path, 0o600) // A copy may have another mode.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of the data folder: %w", err)
	}
	fits := json.Unmarshal(text, &known) == nil && known != nil // Its error would quote what may be a secret.
	for _, secret := range known {
		fits = fits && len(secret) >= secretBytesMin
	}
	if !fits {
		return nil, fmt.Errorf("%s: expected a JSON object of generated secrets, each a string of at least %d bytes, got something else; repair the file, or remove it to generate new secrets",
			path, secretBytesMin)
	}
	return known, nil
}

// keep writes those that were made up into the folder, which nobody else may use by now. The file is replaced as a whole, so that no
// crash leaves half of one.
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
	if err := s.write(known); err != nil {
		return fmt.Errorf("storing the secrets in the data folder: %w", err)
	}
	return nil
}

func (s *secrets) write(known map[string]string) error {
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.folder, secretsFile)
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
