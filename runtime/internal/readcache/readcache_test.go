package readcache_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readcache"
)

func record(name string, revision int64) instances.Record {
	return instances.Record{Instance: instances.ID{Machine: "order", ID: name}, Revision: revision}
}

// wantCopy checks the revision of the copy of order/1. Revision 0 means that there is none.
func wantCopy(t *testing.T, c *readcache.Cache, revision int64) {
	t.Helper()
	got, ok := c.Get(record("1", 0).Instance)
	if ok != (revision > 0) || ok && got.Revision != revision {
		t.Errorf("got revision %d, %v; want revision %d", got.Revision, ok, revision)
	}
}

func TestGetReturnsCopiesAfterCurrentOnes(t *testing.T) {
	t.Parallel()
	c := readcache.New(time.Now, 2)
	c.Put(record("1", 1))
	wantCopy(t, c, 0)
	c.Loaded(record("1", 1))
	c.Put(record("1", 2))
	wantCopy(t, c, 0)
	c.Loaded(record("1", 2))
	wantCopy(t, c, 0)
	c.Put(record("1", 3))
	wantCopy(t, c, 3)
	c.Put(record("1", 4))
	wantCopy(t, c, 4)

	c.Loaded(record("1", 5)) // Another process has written.
	c.Put(record("1", 6))
	wantCopy(t, c, 0)
	c.Put(record("1", 7))
	c.Put(record("1", 8))
	wantCopy(t, c, 8)
}

func TestACopyIsNotUsedAfterAMinute(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := readcache.New(func() time.Time { return now }, 0)
	c.Put(record("1", 1))
	now = now.Add(readcache.AgeMax)
	wantCopy(t, c, 1)
	now = now.Add(1)
	wantCopy(t, c, 0)
}

func TestACacheIsBounded(t *testing.T) {
	t.Parallel()
	c := readcache.New(time.Now, 0)
	large := record("1", 1)
	large.Snapshot = make(json.RawMessage, readcache.SnapshotBytesMax+1)
	c.Put(large)
	wantCopy(t, c, 0)
	kept := 0
	for i := range 2 * readcache.RecordsMax {
		c.Put(record(fmt.Sprint(i), 1))
	}
	for i := range 2 * readcache.RecordsMax {
		if _, ok := c.Get(record(fmt.Sprint(i), 0).Instance); ok {
			kept++
		}
	}
	if kept != readcache.RecordsMax {
		t.Errorf("the cache keeps %d copies, want %d", kept, readcache.RecordsMax)
	}
}
