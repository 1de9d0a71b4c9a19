package disk

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// set returns a change of one record. An empty value removes the record.
func set(service, key, value string) Change {
	r := record.Record{Key: key}
	if value != "" {
		r.Value = []byte(value)
	}
	return Change{Service: service, Records: []record.Record{r}}
}

func load(t *testing.T, s *Store, service string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := s.Load(service, func(records iter.Seq2[string, []byte]) error {
		for key, value := range records {
			all[key] = string(value)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCommit_survives_closing_the_store(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "when missing")
	s := open(t, dir)
	var last Ticket
	for _, changes := range [][]Change{
		{set("sqs", "a", "1"), set("dynamodb", "a", "other")},
		{set("sqs", "b", "2"), set("sqs", "c", "3")},
		{set("sqs", "a", "4"), set("sqs", "b", "")},
	} {
		last = s.Commit(changes)
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	for service, want := range map[string]map[string]string{
		"sqs": {"a": "4", "c": "3"}, "dynamodb": {"a": "other"}, "none": {},
	} {
		if diff := cmp.Diff(want, load(t, s, service)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", service, diff)
		}
	}
}

func TestClose_writes_commits_without_waiters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	want := map[string]string{}
	for i := range 100 {
		key := fmt.Sprint(i)
		want[key] = key
		s.Commit([]Change{set("sqs", key, key)})
	}
	closeStore(t, s)
	if err := s.Commit([]Change{set("sqs", "late", "x")}).Wait(); err == nil || !strings.Contains(err.Error(), dir+" is closed") {
		t.Errorf("a commit after Close: got %v, expected an error that mentions the closed folder", err)
	}
	s = open(t, dir)
	defer closeStore(t, s)
	if diff := cmp.Diff(want, load(t, s, "sqs")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// block prevents the store from writing until the test calls `release`.
func block(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func (t Ticket) isDone() bool {
	if t.batch == nil {
		return true
	}
	select {
	case <-t.batch.done:
		return true
	default:
		return false
	}
}

func transactions(t *testing.T, s *Store) (id int) {
	t.Helper()
	if err := s.db.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCommit_joins_the_batch_of_all_that_waited(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	before := transactions(t, s)
	release := block(t, s)
	tickets := make([]Ticket, 1000)
	for i := range tickets {
		tickets[i] = s.Commit([]Change{set("sqs", fmt.Sprint(i), "x")})
	}
	release()
	for _, ticket := range tickets {
		if err := ticket.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	// The first commit may have been written alone before the others arrived.
	if wrote := transactions(t, s) - before; wrote > 2 {
		t.Errorf("1000 commits took %d transactions, want at most 2", wrote)
	}
}

func TestCommit_without_changes_waits_only_for_earlier_commits(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	if !s.Commit(nil).isDone() {
		t.Error("waited although nothing was committed")
	}
	release := block(t, s)
	write := s.Commit([]Change{set("sqs", "a", "1")})
	early := s.Commit(nil)
	for !s.isWriting() {
		runtime.Gosched()
	}
	late := s.Commit(nil)
	if write.isDone() || early.isDone() || late.isDone() {
		t.Error("did not wait for the write to be on disk")
	}
	release()
	if err := errors.Join(write.Wait(), early.Wait(), late.Wait()); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) isWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writing != nil
}

func TestCommit_always_fails_after_a_failure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Commit([]Change{set("sqs", "a", "1")}).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]Change{set("dynamodb", "a", "1"), set("sqs", "b", "2"), set("sqs", "", "no key")}).Wait(); err == nil {
		t.Fatal("expected bbolt to reject a record without a key")
	}
	for _, changes := range [][]Change{{set("sqs", "b", "2")}, nil} {
		err := s.Commit(changes).Wait()
		if err == nil || !strings.Contains(err.Error(), "cannot write the data folder "+dir) || !strings.Contains(err.Error(), "key required") {
			t.Errorf("a later commit of %v: got %v, expected the folder and the first error", changes, err)
		}
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if got := load(t, s, "sqs"); !maps.Equal(got, map[string]string{"a": "1"}) {
		t.Errorf("got %v, expected the records from before the failure", got)
	}
	if got := load(t, s, "dynamodb"); len(got) > 0 {
		t.Errorf("got %v from the failed commit, expected nothing", got)
	}
}

func TestOpen_names_the_folder_that_another_process_has_open(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	defer closeStore(t, s)
	want := "the data folder " + dir + " is in use by another process: stop that one, or choose another folder"
	if _, err := Open(dir); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpen_reports_an_invalid_file_and_does_not_change_it(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	s := open(t, made)
	for i := range 200 {
		s.Commit([]Change{set("sqs", fmt.Sprintf("%03d", i), strings.Repeat("x", 1000))})
	}
	closeStore(t, s)
	whole, err := os.ReadFile(filepath.Join(made, FileName))
	if err != nil {
		t.Fatal(err)
	}
	const putBack = "; restore a backup of it, move it away, or choose another folder"
	for name, test := range map[string]struct {
		file []byte
		want []string
	}{
		"text":            {[]byte("To be, or not to be\n"), []string{"invalid database", putBack}},
		"other data":      {[]byte(strings.Repeat("0123456789", 10_000)), []string{"invalid database", putBack}},
		"cut off":         {whole[:len(whole)/2], []string{"it is truncated: expected at least ", putBack}},
		"cut to a page":   {whole[:os.Getpagesize()], []string{putBack}},
		"cut to its head": {whole[:2*os.Getpagesize()], []string{"it is truncated: expected at least ", putBack}},
		"another bbolt": {bboltFile(t, "kubernetes", "", ""), []string{
			`awslocal did not create it, it contains "kubernetes"`, putBack}},
		"a later format": {bboltFile(t, formatBucket, formatKey, "7"), []string{
			`it has a different format: this build reads format 1, the file has "7"; use the version of settle that wrote it, or choose another folder`}},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := os.WriteFile(path, test.file, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		for _, want := range append(test.want, "opening the data file "+path+": ") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(test.file) {
			t.Errorf("%s: the file has changed (%v), expected no change", name, err)
		}
	}
}

// bboltFile returns the bytes of a bbolt file with one bucket that holds one key.
func bboltFile(t *testing.T, bucket, key, value string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte(bucket))
		if err != nil || key == "" {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOpen_succeeds_after_a_crash_before_the_first_write(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	defer closeStore(t, s)
	if got := load(t, s, "sqs"); len(got) > 0 {
		t.Errorf("got %v, expected nothing", got)
	}
}

// BenchmarkCommit shows that a single caller waits for its own transaction, while concurrent callers share a
// transaction:
//
//	go test -bench Commit ./infra/awslocal/internal/disk
func BenchmarkCommit(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s, err := Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			value := strings.Repeat("x", 200)
			var left atomic.Int64
			left.Store(int64(b.N))
			var running sync.WaitGroup
			b.ResetTimer()
			for client := range clients {
				running.Go(func() {
					for n := left.Add(-1); n >= 0; n = left.Add(-1) {
						change := set("sqs", fmt.Sprint(client, "/", n%1000), value)
						if err := s.Commit([]Change{change}).Wait(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			running.Wait()
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
