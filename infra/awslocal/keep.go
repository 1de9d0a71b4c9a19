package awslocal

import (
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/disk"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// keeper is a model whose state is a set of records. See package record.
type keeper interface {
	Keep()
	TakeRecords() []record.Record
	Restore(records iter.Seq2[string, []byte]) error
}

// service is a model and the name of its records in the data folder.
type service struct {
	name  string
	model keeper
}

// services returns the models that a data folder stores. The names are part of the file format and must not change.
func (c *Cloud) services() []service {
	return []service{{"sqs", c.sqs}, {"dynamodb", c.dynamo}, {"scheduler", c.scheduler}, {"states", c.states}, {"events", c.events}, {"clock", clockKeeper{c.clock}}}
}

// Open returns a Cloud backed by the data folder config.Data. The Cloud answers a call only when all changes that the
// call made or saw are on disk. An answered call therefore survives a kill of the process. It also survives a crash of
// the machine if the disks honour fsync. Messages in flight, receipt handles, deduplication, schedules, executions and
// task tokens stay valid. Their deadlines follow Config.Now. Work that became due while the folder was closed is
// performed at once.
//
// Only one process at a time can open a folder. Close releases it. If a write fails, for example because the disk is
// full, all later calls fail.
func Open(config Config) (*Cloud, error) {
	c, err := newCloud(config)
	if err != nil || config.Data == "" {
		return c, err
	}
	store, err := disk.Open(config.Data)
	if err != nil {
		return nil, err
	}
	for _, s := range c.services() {
		if err := store.Load(s.name, s.model.Restore); err != nil {
			return nil, errors.Join(err, store.Close())
		}
		s.model.Keep()
	}
	c.store, c.opened = store, c.now()
	c.change(func(time.Time) {}) // This performs the work that became due.
	return c, nil
}

// Close releases the data folder once all changes are on disk. All later calls fail. Without a data folder Close does
// nothing.
func (c *Cloud) Close() error {
	if c.store == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.alarm != nil {
		c.alarm.Stop()
	}
	err := c.store.Close()
	for _, room := range c.rooms {
		room.stop()
		room.wakeAll() // Waiting receives now return an error.
	}
	return err
}

// commit queues all changes since the last commit, as one atomic change of the data folder.
func (c *Cloud) commit() disk.Ticket {
	if c.store == nil {
		return disk.Ticket{}
	}
	var changes []disk.Change
	for _, s := range c.services() {
		if records := s.model.TakeRecords(); len(records) > 0 {
			changes = append(changes, disk.Change{Service: s.name, Records: records})
		}
	}
	return c.store.Commit(changes)
}

// notStored is the answer to a call whose effects could not be stored on disk.
func notStored(err error) *wire.Error {
	failed := wire.Errorf("InternalFailure", "%v", err)
	failed.Status = http.StatusInternalServerError
	return failed
}
