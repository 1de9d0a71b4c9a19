package awslocal

import (
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/disk"
	"github.com/settle-run/settle/runtime/awslocal/internal/record"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// keeper is a model whose state is a set of records; package record says how.
type keeper interface {
	Keep()
	TakeRecords() []record.Record
	Restore(records iter.Seq2[string, []byte]) error
}

// service is a model under the name that its records have in the data folder.
type service struct {
	name  string
	model keeper
}

// services are the models that a data folder keeps. Their names are in files: they must not
// change.
func (c *Cloud) services() []service {
	return []service{{"sqs", c.sqs}, {"dynamodb", c.dynamo}, {"scheduler", c.scheduler}, {"states", c.states}}
}

// Open returns a Cloud that holds what the data folder keeps, and keeps in it what it holds:
// a call is answered when what it changed, and what it saw, is on disk. So whatever was
// answered survives a kill of the process, and of the machine as far as its disks do what
// fsync asks. Messages in flight, receipt handles, deduplication, schedules, executions and
// task tokens go on after it, by Config.Now; what has fallen due meanwhile happens at once.
//
// A folder is open in one process at a time; Close frees it. If it cannot be written any
// more, because the disk is full, say, all calls fail from then on.
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
	c.change(func(time.Time) {}) // what was to follow by now follows
	return c, nil
}

// Close frees the data folder once all that was changed is on disk; all calls fail from then
// on. Without a data folder it does nothing.
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
		room.wakeAll() // to be told that the Cloud is closed
	}
	return err
}

// commit queues what has changed since it was last called, as one change of the data folder.
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

// notKept answers a call whose effects are not on disk.
func notKept(err error) *wire.Error {
	failed := wire.Errorf("InternalFailure", "%v", err)
	failed.Status = http.StatusInternalServerError
	return failed
}
