package dynamo

import (
	"encoding/binary"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// TTLDelay is how long an item outlives its deadline: it is gone from the first call on that
// comes this long after its deadline, or after it was written, whichever is later, unless
// DelayTTL says otherwise. AWS deletes within a few days; a reader that does not check the deadline itself is wrong on
// both.
const TTLDelay = time.Minute

// ttlPast is how old a deadline may be: the developer guide, "Using time to live", leaves
// items alone whose deadline lies more than five years back.
const ttlPast = 5 * 365 * 24 * time.Hour

// timeToLive knows when the items of a table expire.
type timeToLive struct {
	delay time.Duration
	// attribute holds the deadline of an item in whole seconds since 1970; empty while TTL is
	// disabled. Values of other types, and numbers with a fraction, never expire.
	attribute string
	// due holds the storage keys of items by the time at which they are to be deleted.
	due ordered.Map[string]
	// dueKeys holds the key in due of each item that is in it, by storage key.
	dueKeys map[string]string
}

// replace follows a change of the item with the given storage key; nil is no item.
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

// ttlDeadlineMax bounds deadlines to those that a time.Time can hold: the year 9999.
const ttlDeadlineMax = 253402300799

// deadline returns when an item expires; ok is false for one that does not.
func (ttl *timeToLive) deadline(item attribute.Map) (deadline time.Time, ok bool) {
	number, ok := item.Get(ttl.attribute).(attribute.Number)
	if !ok {
		return time.Time{}, false
	}
	seconds, ok := number.Int64()
	return time.Unix(seconds, 0), ok && 0 <= seconds && seconds <= ttlDeadlineMax
}

// timeKey orders times after 1970.
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

// updateTimeToLive takes effect at once, where AWS takes up to an hour.
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
