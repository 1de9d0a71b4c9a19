// Package readcache is the durable.Cache of a process.
package readcache

import (
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/instances"
)

const (
	// RecordsMax limits the number of copies.
	RecordsMax = 64
	// SnapshotBytesMax limits the size of a copy's snapshot. Larger instances are not copied.
	SnapshotBytesMax = 32 << 10
	// AgeMax is the maximum age of a copy in use. Within that time, no item can expire and be created again.
	AgeMax = time.Minute
	// HitsMin is the number of up-to-date copies in a row after which Get should return copies. A stale copy costs a
	// failed write, which DynamoDB bills like a write (DynamoDB Developer Guide, "Read and write operations"). A write
	// costs up to 20 times as much as a read of the same item. So all stale copies together cost at most as much as the
	// reads.
	HitsMin = 20
)

// Cache keeps copies of the records that a process has stored. It is safe for concurrent use.
type Cache struct {
	now     func() time.Time
	hitsMin int

	mu     sync.Mutex
	copies map[instances.ID]stored
	// hits counts the up-to-date copies since the last stale one.
	hits int
}

type stored struct {
	record instances.Record
	at     time.Time
}

// New returns an empty cache with the clock `now`. Get returns copies after hitsMin up-to-date copies in a row.
func New(now func() time.Time, hitsMin int) *Cache {
	return &Cache{now: now, hitsMin: hitsMin, copies: map[instances.ID]stored{}}
}

// Get returns a copy of the record. It returns false if there is no copy, if the copy is older than AgeMax, or if fewer
// than hitsMin copies in a row were up to date. Copies become stale if several processes share the events of an
// instance.
func (c *Cache) Get(id instances.ID) (instances.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.copies[id]
	return s.record, ok && c.hits >= c.hitsMin && c.now().Sub(s.at) <= AgeMax
}

// Put keeps a copy of a record that was just stored. The write of a later revision also shows that the earlier copy was
// up to date.
func (c *Cache) Put(record instances.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.copies[record.Instance]; ok && s.record.Revision < record.Revision {
		c.hits++
	}
	delete(c.copies, record.Instance)
	if len(record.Snapshot) > SnapshotBytesMax {
		return
	}
	for id := range c.copies {
		if len(c.copies) < RecordsMax {
			break
		}
		delete(c.copies, id)
	}
	c.copies[record.Instance] = stored{record, c.now()}
}

// Loaded drops the copy of an instance that was just read, and counts whether the copy was up to date.
func (c *Cache) Loaded(record instances.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.copies[record.Instance]
	if !ok {
		return
	}
	delete(c.copies, record.Instance)
	if s.record.Revision == record.Revision && s.record.CreatedAt.Equal(record.CreatedAt) {
		c.hits++
	} else {
		c.hits = 0
	}
}
