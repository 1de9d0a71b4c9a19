package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// format is the version of what is in the file. It changes when a build could not read what
// one before it has written.
const format = "1"

// lockWait is how long Open waits for another process to close the folder.
const lockWait = time.Second

// The file says of itself what it is, under these names.
const (
	formatBucket = "settle awslocal"
	formatKey    = "format"
)

// Open opens the data folder dir, and makes it if it is not there. Its error says what to do.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	path := filepath.Join(dir, FileName)
	if err := checkWhole(path); err != nil {
		return nil, explain(path, err)
	}
	db, err := bbolt.Open(path, 0o600, options())
	if err != nil {
		return nil, explain(path, err)
	}
	if err := errors.Join(checkFormat(db), syncFolder(dir)); err != nil {
		return nil, explain(path, errors.Join(err, db.Close()))
	}
	s := &Store{dir: dir, db: db, stopped: make(chan struct{})}
	s.work = sync.NewCond(&s.mu)
	go s.write()
	return s, nil
}

// options leave the list of free pages out of the transactions: it is found anew when the
// file is opened, which reads all of it anyway, and a purge can make it long.
func options() *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// errFormat is a file of another version.
var errFormat = errors.New("it has another format")

// checkWhole refuses a file that was cut off, which would end the process when a part is read
// that is not there. A crash leaves no such file behind.
func checkWhole(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() == 0:
		return nil // a crash came before anything was written
	}
	readOnly := options()
	readOnly.ReadOnly = true
	db, err := bbolt.Open(path, 0o600, readOnly)
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		info, err := os.Stat(path)
		if err == nil && tx.Size() > info.Size() {
			err = fmt.Errorf("it is cut off: expected at least %d bytes, got %d", tx.Size(), info.Size())
		}
		return err
	})
	return errors.Join(err, db.Close())
}

// checkFormat refuses a file that this build cannot read, and marks a new one.
func checkFormat(db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(formatBucket))
		if bucket == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return fmt.Errorf("it is not one that awslocal has made, it holds %q", first)
			}
			bucket, err := tx.CreateBucket([]byte(formatBucket))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(formatKey), []byte(format))
		}
		if found := bucket.Get([]byte(formatKey)); string(found) != format {
			return fmt.Errorf("%w: this build reads format %s, it has %q", errFormat, format, found)
		}
		return nil
	})
}

// syncFolder makes the file's entry in its folder durable. Windows has no such thing.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// explain says what to do about an error of opening the file.
func explain(path string, err error) error {
	var system *fs.PathError
	advice := "; put back a copy of it, move it away, or choose another folder"
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return fmt.Errorf("the data folder %s is in use by another process: stop that one, or choose another folder",
			filepath.Dir(path))
	case errors.Is(err, errFormat):
		advice = "; use the version of settle that wrote it, or choose another folder"
	case errors.As(err, &system):
		advice = ""
	}
	return fmt.Errorf("opening the data file %s: %w%s", path, err, advice)
}
