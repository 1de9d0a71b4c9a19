// Package disk keeps the records of awslocal's models in a file of a data folder, so that
// what was acknowledged survives a kill of the process or of the machine.
//
// One goroutine writes: whatever has been queued while it wrote the last transaction is the
// next one (group commit). So one call alone waits for one transaction, and many at once
// wait for one together.
package disk

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/settle-run/settle/runtime/awslocal/internal/record"
)

// FileName is the name of the file in the data folder.
const FileName = "aws.db"

// Change is what has changed of one service.
type Change struct {
	Service string
	Records []record.Record
}

// Store is an open data folder. No other process can open it at the same time.
type Store struct {
	dir string
	db  *bbolt.DB

	mu      sync.Mutex
	work    *sync.Cond // there is something in next, or closing is set
	next    *batch     // what the next transaction writes; nil: nothing
	writing *batch     // what is being written; nil: nothing
	failed  error      // why nothing is written any more
	closing bool
	stopped chan struct{} // closed when the writing goroutine has ended
}

// batch is what one transaction writes.
type batch struct {
	changes []Change
	done    chan struct{} // closed when it is on disk, or never will be
	err     error         // why it is not; to be read after done
}

// Ticket stands for a commit. The zero Ticket is one that nothing has to be waited for.
type Ticket struct{ batch *batch }

// Wait returns nil when the records of the commit, and of all commits before it, are on disk.
// An error means that they may never be.
func (t Ticket) Wait() error {
	if t.batch == nil {
		return nil
	}
	<-t.batch.done
	return t.batch.err
}

// Commit queues the changes to be written in one transaction: all of them, or none, survive
// a crash. Commits are written in the order in which they are made. Without changes it only
// asks for the commits before it.
//
// The changes must not be modified afterwards. Once a commit has failed, so do all later ones.
func (s *Store) Commit(changes []Change) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		failed := &batch{done: make(chan struct{}), err: s.failed}
		close(failed.done)
		return Ticket{failed}
	case len(changes) == 0 && s.next == nil:
		return Ticket{s.writing}
	case s.next == nil:
		s.next = &batch{done: make(chan struct{})}
		s.work.Signal()
	}
	s.next.changes = append(s.next.changes, changes...)
	return Ticket{s.next}
}

// write writes batches until the store is closed.
func (s *Store) write() {
	defer close(s.stopped)
	for {
		s.mu.Lock()
		for s.next == nil && !s.closing {
			s.work.Wait()
		}
		b := s.next
		s.writing, s.next = b, nil
		s.mu.Unlock()
		if b == nil {
			return
		}
		b.err = s.failure(s.transact(b.changes))
		s.mu.Lock()
		s.writing = nil
		if b.err != nil && s.failed == nil {
			s.fail(b.err)
		}
		s.mu.Unlock()
		close(b.done)
		// Let those who have waited commit what comes next: with the next batch, not after it.
		runtime.Gosched()
	}
}

// fail refuses all commits from now on, and those that wait already.
func (s *Store) fail(err error) {
	s.failed = err
	if s.next != nil {
		s.next.err = err
		close(s.next.done)
		s.next = nil
	}
}

// failure says what a failed transaction means.
func (s *Store) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the data folder %s cannot be written, and nothing is taken any more that would not be kept; "+
		"mend the cause and start again, what was acknowledged is there: %w", s.dir, err)
}

// transact writes changes in one transaction. When it returns nil they are on disk.
func (s *Store) transact(changes []Change) error {
	final := make(map[string]map[string][]byte) // by service and key: the last value counts
	for _, change := range changes {
		values, ok := final[change.Service]
		if !ok {
			values = make(map[string][]byte)
			final[change.Service] = values
		}
		for _, r := range change.Records {
			values[r.Key] = r.Value
		}
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		for service, values := range final {
			bucket, err := tx.CreateBucketIfNotExists([]byte(service))
			if err != nil {
				return err
			}
			for _, key := range slices.Sorted(maps.Keys(values)) { // neighbours share pages
				if err := put(bucket, key, values[key]); err != nil {
					return fmt.Errorf("the record %q of %s: %w", key, service, err)
				}
			}
		}
		return nil
	})
}

func put(bucket *bbolt.Bucket, key string, value []byte) error {
	if value == nil {
		return bucket.Delete([]byte(key))
	}
	return bucket.Put([]byte(key), value)
}

// Load calls restore with the records of a service, in the order of their keys. A value is
// valid only until the next one.
func (s *Store) Load(service string, restore func(iter.Seq2[string, []byte]) error) error {
	err := s.db.View(func(tx *bbolt.Tx) error {
		return restore(func(yield func(string, []byte) bool) {
			bucket := tx.Bucket([]byte(service))
			if bucket == nil {
				return
			}
			cursor := bucket.Cursor()
			for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
				if !yield(string(key), value) {
					return
				}
			}
		})
	})
	if err != nil {
		return fmt.Errorf("reading the data folder %s: %w", s.dir, err)
	}
	return nil
}

// Close writes what is queued and frees the folder.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return errors.New("the data folder " + s.dir + " is closed already")
	}
	s.closing = true
	s.work.Signal()
	s.mu.Unlock()
	<-s.stopped
	s.mu.Lock()
	if s.failed == nil {
		s.fail(fmt.Errorf("the data folder %s is closed", s.dir))
	}
	s.mu.Unlock()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing the data folder %s: %w", s.dir, err)
	}
	return nil
}
