// Package disk stores the records of awslocal's models in a file in a data folder. Acknowledged changes survive a
// kill of the process and a crash of the machine.
//
// One goroutine writes. The changes queued while it writes a transaction form the next transaction (group commit). A
// single caller therefore waits for one transaction, and concurrent callers share a transaction.
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

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// FileName is the name of the file in the data folder.
const FileName = "aws.db"

// Change holds the changed records of one service.
type Change struct {
	Service string
	Records []record.Record
}

// Store is an open data folder. No other process can open it at the same time.
type Store struct {
	dir string
	db  *bbolt.DB

	mu      sync.Mutex
	work    *sync.Cond // signalled when `next` or `closing` is set
	next    *batch     // the next transaction, or nil
	writing *batch     // the current transaction, or nil
	failed  error      // the error that stopped all writing
	closing bool
	stopped chan struct{} // closed when the writing goroutine has ended
}

// batch is the content of one transaction.
type batch struct {
	changes []Change
	done    chan struct{} // closed when the batch is on disk or has failed
	err     error         // valid once `done` is closed
}

// Ticket identifies a commit. Wait on the zero Ticket returns at once.
type Ticket struct{ batch *batch }

// Wait returns nil when this commit and all earlier commits are on disk. If it returns an error, they may or may not be
// on disk.
func (t Ticket) Wait() error {
	if t.batch == nil {
		return nil
	}
	<-t.batch.done
	return t.batch.err
}

// Commit queues the changes for one transaction. After a crash, either all of them exist or none. Commits are written
// in order. If changes is empty, Commit returns a Ticket for the earlier commits.
//
// The caller must not modify the changes afterwards. After a failed commit, all later commits fail.
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
		// Let the callers that waited add their next commits to the next batch.
		runtime.Gosched()
	}
}

// fail rejects the waiting commits and all later ones.
func (s *Store) fail(err error) {
	s.failed = err
	if s.next != nil {
		s.next.err = err
		close(s.next.done)
		s.next = nil
	}
}

// failure explains the effect of a failed transaction and the remedy.
func (s *Store) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot write the data folder %s, so no more changes are accepted; "+
		"fix the cause and restart, acknowledged changes are safe: %w", s.dir, err)
}

// transact writes changes in one transaction. They are on disk when it returns nil.
func (s *Store) transact(changes []Change) error {
	final := make(map[string]map[string][]byte) // by service and key; the last value wins
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
			for _, key := range slices.Sorted(maps.Keys(values)) { // neighbouring keys share pages
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

// Load calls `restore` with the records of a service, in key order. A value is valid only until `restore` asks for the
// next value.
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

// Close writes the queued changes and releases the folder.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return errors.New("the data folder " + s.dir + " is already closed")
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
