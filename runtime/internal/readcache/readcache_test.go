package readcache_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readcache"
)

func record(name string, revision int64) instances.Record {
	return instances.Record{Instance: instances.ID{Machine: "order", ID: name}, Revision: revision}
}

// wantCopy checks the revision of the copy of order/1. Revision 0 means no copy.
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

// One instance gets 10,000 events. Before each event, SQS may change the process that gets the events, with the given
// probability. The test counts the reads that the caches save, and the stale copies, which each cost a failed write.
func TestTheCacheSavesReadsAndRarelyFails(t *testing.T) {
	t.Parallel()
	const processes, events = 4, 10_000
	for _, c := range []struct {
		change             float64
		savedMin, staleMax int
	}{
		{0, 9_900, 0},
		{0.001, 9_500, 20},
		{0.01, 7_000, 100},
		{0.1, 2_000, 200},
		{1, 0, 10},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		var caches [processes]*readcache.Cache
		for i := range caches {
			caches[i] = readcache.New(time.Now, readcache.HitsMin)
		}
		process, saved, stale := 0, 0, 0
		for revision := int64(1); revision <= events; revision++ {
			if rng.Float64() < c.change {
				process = rng.IntN(processes)
			}
			cache := caches[process]
			got, ok := cache.Get(record("1", 0).Instance)
			isCurrent := ok && got.Revision == revision-1
			switch {
			case isCurrent:
				saved++
			case ok:
				stale++
			}
			if !isCurrent {
				cache.Loaded(record("1", revision-1))
			}
			cache.Put(record("1", revision))
		}
		t.Logf("probability of a change %v: %d of %d reads saved, %d stale copies", c.change, saved, events, stale)
		if saved < c.savedMin || stale > c.staleMax {
			t.Errorf("probability of a change %v: want at least %d reads saved and at most %d stale copies", c.change, c.savedMin, c.staleMax)
		}
	}
}
