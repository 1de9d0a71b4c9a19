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

// format is the version of the file format. Increment it when a build can no longer read the files of the previous
// build.
const format = "1"

// lockWait is how long Open waits for another process to close the folder.
const lockWait = time.Second

// The names under which the file identifies itself and its format.
const (
	formatBucket = "settle awslocal"
	formatKey    = "format"
)

// Open opens the data folder dir and creates it if it does not exist. Its errors contain advice.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	path := filepath.Join(dir, FileName)
	if err := checkNotTruncated(path); err != nil {
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

// options returns bbolt options that keep the list of free pages out of the file. After a purge the list can be long,
// and each transaction would write it. bbolt rebuilds the list when it opens the file, by reading all pages. This costs
// little, because awslocal reads the whole file at that time too.
func options() *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// errFormat is returned for a file of another format version.
var errFormat = errors.New("it has a different format")

// checkNotTruncated rejects a truncated file. bbolt maps the file into memory, so reading its missing part would crash
// the process. A crash never truncates the file.
func checkNotTruncated(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() == 0:
		return nil // a crash happened before the first write
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
			err = fmt.Errorf("it is truncated: expected at least %d bytes, got %d", tx.Size(), info.Size())
		}
		return err
	})
	return errors.Join(err, db.Close())
}

// checkFormat rejects a file that this build cannot read, and marks a new file with its format.
func checkFormat(db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(formatBucket))
		if bucket == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return fmt.Errorf("awslocal did not create it, it contains %q", first)
			}
			bucket, err := tx.CreateBucket([]byte(formatBucket))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(formatKey), []byte(format))
		}
		if found := bucket.Get([]byte(formatKey)); string(found) != format {
			return fmt.Errorf("%w: this build reads format %s, the file has %q", errFormat, format, found)
		}
		return nil
	})
}

// syncFolder makes the file's directory entry durable. Windows has no equivalent.
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

// explain adds advice to an error from opening the file.
func explain(path string, err error) error {
	var system *fs.PathError
	advice := "; restore a backup of it, move it away, or choose another folder"
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
