package dynamo

import (
	"encoding/binary"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// TTLDelay is how long an item remains after its expiry time or its last write, whichever is later. DelayTTL overrides
// it. AWS deletes expired items within a few days. On AWS and here, readers can receive expired items, so they must
// check the expiry time themselves.
const TTLDelay = time.Minute

// ttlPast is the maximum age of an expiry time. Items that expired more than five years ago are not deleted (DynamoDB
// Developer Guide, "Using time to live").
const ttlPast = 5 * 365 * 24 * time.Hour

// timeToLive schedules the deletion of a table's expired items.
type timeToLive struct {
	delay time.Duration
	// attribute is the name of the attribute with an item's expiry time, in whole seconds since 1970. It is empty while
	// TTL is disabled. An item whose attribute has another type or is a number with a fraction never expires.
	attribute string
	// due holds the storage keys of items by the time of their deletion.
	due ordered.Map[string]
	// dueKeys holds each item's key in `due`, by the item's storage key.
	dueKeys map[string]string
}

// replace updates the schedule after a change of the item whose storage key is `key`. If `changed` is nil, the item was
// deleted.
func (ttl *timeToLive) replace(now time.Time, key string, changed attribute.Map) {
	if ttl.attribute == "" {
		return
	}
	if dueKey, ok := ttl.dueKeys[key]; ok {
		ttl.due.Delete(dueKey)
		delete(ttl.dueKeys, key)
	}
	deadline, ok := ttl.deadline(changed)
	if !ok || deadline.Before(now.Add(-ttlPast)) {
		return
	}
	if deadline.Before(now) {
		deadline = now
	}
	ttl.add(timeKey(deadline.Add(ttl.delay))+key, key)
}

// ttlDeadlineMax is the latest valid expiry time: the end of the year 9999. Items with a later time never expire.
const ttlDeadlineMax = 253402300799

// deadline returns the time at which an item expires. ok is false if the item does not expire.
func (ttl *timeToLive) deadline(item attribute.Map) (deadline time.Time, ok bool) {
	number, ok := item.Get(ttl.attribute).(attribute.Number)
	if !ok {
		return time.Time{}, false
	}
	seconds, ok := number.Int64()
	return time.Unix(seconds, 0), ok && 0 <= seconds && seconds <= ttlDeadlineMax
}

// timeKey returns a key that sorts like the time, for times after 1970.
func timeKey(t time.Time) string {
	key := binary.BigEndian.AppendUint64(nil, uint64(t.Unix()))
	return string(binary.BigEndian.AppendUint32(key, uint32(t.Nanosecond())))
}

// sweep deletes the items that are due.
func (t *table) sweep(now time.Time) {
	var expired []string
	for dueKey, key := range t.ttl.due.From("") {
		if dueKey[:len(timeKey(now))] > timeKey(now) {
			break
		}
		expired = append(expired, key)
	}
	for _, key := range expired {
		item, _ := t.items.Get(key)
		t.replace(now, item, nil)
	}
}

type updateTimeToLiveRequest struct {
	TableName               *string
	TimeToLiveSpecification *timeToLiveSpecification
}

type timeToLiveSpecification struct {
	AttributeName string
	Enabled       bool
}

type updateTimeToLiveAnswer struct {
	TimeToLiveSpecification timeToLiveSpecification
}

// updateTimeToLive takes effect at once, while AWS takes up to an hour.
func (m *Model) updateTimeToLive(now time.Time, request *updateTimeToLiveRequest) (any, *wire.Error) {
	t, failed := m.table(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	if request.TimeToLiveSpecification == nil {
		return nil, missing("timeToLiveSpecification")
	}
	given := *request.TimeToLiveSpecification
	active := t.ttl.attribute
	switch {
	case given.AttributeName == "":
		return nil, constraint("", "timeToLiveSpecification.attributeName", "Member must have length greater than or equal to 1")
	case active != "" && active != given.AttributeName:
		return nil, validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", active)
	case given.Enabled && active != "":
		return nil, validation("TimeToLive is already enabled")
	case !given.Enabled && active == "":
		return nil, validation("TimeToLive is already disabled")
	}
	t.noteTable()
	t.noteAllDue()
	t.ttl = timeToLive{delay: m.ttlDelay}
	if given.Enabled {
		t.ttl.attribute = given.AttributeName
		for key, item := range t.items.From("") {
			t.ttl.replace(now, key, item)
		}
		t.noteAllDue()
	}
	return updateTimeToLiveAnswer{given}, nil
}

type describeTimeToLiveAnswer struct {
	TimeToLiveDescription timeToLiveDescription
}

type timeToLiveDescription struct {
	TimeToLiveStatus string
	AttributeName    string `json:",omitempty"`
}

func (m *Model) describeTimeToLive(now time.Time, request *tableRequest) (any, *wire.Error) {
	t, failed := m.table(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	status := "DISABLED"
	if t.ttl.attribute != "" {
		status = "ENABLED"
	}
	return describeTimeToLiveAnswer{timeToLiveDescription{TimeToLiveStatus: status, AttributeName: t.ttl.attribute}}, nil
}
