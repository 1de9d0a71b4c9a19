// Package scheduler models Amazon EventBridge Scheduler: schedules, their groups, and the
// invocations that they bring about. A Model is state and nothing else: it starts no
// goroutine, takes no lock, reads no clock and sends nothing. Every method is given the
// time, which must not run backwards; IDs follow from counters. So the same calls give the
// same answers, always.
//
// The rules are those of the EventBridge Scheduler API Reference (2021-06-30) and of the
// EventBridge Scheduler User Guide; where they leave a choice, the code says which one it
// takes. What is not modelled is refused by name: every target but SQS, cron expressions,
// and keys of KMS.
//
// AWS invokes a target within the minute of its time (User Guide, "Schedule types in
// EventBridge Scheduler"); the model does so at the very second, and within a flexible time
// window at its beginning. Whoever relies on that is wrong on AWS.
package scheduler

import (
	"encoding/binary"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/runtime/awslocal/internal/record"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// Model is the schedules of one account. It is not safe for concurrent use.
//
// Serve answers calls and fires nothing; time passes in Advance. Whoever serves a model
// advances it to the time of a call before the call and after it, and performs what is due:
//
//	model.Advance(now)
//	for firings := model.TakeFirings(); len(firings) > 0; firings = model.TakeFirings() {
//		for _, firing := range firings {
//			model.Finish(now, firing.ID, send(firing.Request))
//		}
//	}
type Model struct {
	groups      ordered.Map[*group]    // by name
	schedules   ordered.Map[*schedule] // by scheduleKey
	invocations map[uint64]*invocation // those that have begun and not ended, by serial
	due         ordered.Map[task]      // what time alone will bring, by dueKey
	firings     []Firing               // not taken yet
	tokens      tokens
	serial      uint64 // the last one given
	touched     record.Touched
}

// task is what is done at its time: one of its members is set.
type task struct {
	at         time.Time
	schedule   *schedule   // begins an invocation
	invocation *invocation // is tried again
}

// New returns a model with the group "default" and no schedules.
func New() *Model {
	m := &Model{invocations: make(map[uint64]*invocation)}
	// The default group of an account has been there always.
	m.groups.Set(defaultGroup, &group{name: defaultGroup, createdAt: time.Unix(0, 0).UTC(), modifiedAt: time.Unix(0, 0).UTC()})
	return m
}

// Next returns the earliest instant at which Advance has something to do: it may have
// passed already. False means never.
func (m *Model) Next() (time.Time, bool) {
	for _, next := range m.due.From("") {
		return next.at, true
	}
	return time.Time{}, false
}

// nextSerial returns a number that was not given before, higher than all before it.
func (m *Model) nextSerial() uint64 {
	m.serial++
	m.touched.Note(serialRecord)
	return m.serial
}

// dueKey orders tasks by time, and tasks of one time by the serial of their schedule or
// invocation.
func dueKey(at time.Time, serial uint64) string {
	return timeKey(at) + string(binary.BigEndian.AppendUint64(nil, serial))
}

// timeKey orders times. The sign of the seconds is flipped, so that those before 1970 come
// first.
func timeKey(t time.Time) string {
	key := binary.BigEndian.AppendUint64(nil, uint64(t.Unix())^1<<63)
	return string(binary.BigEndian.AppendUint32(key, uint32(t.Nanosecond())))
}

const (
	defaultGroup = "default"
	arnPrefix    = "arn:aws:scheduler:" + wire.Region + ":" + wire.Account + ":"
)

func groupARN(name string) string { return arnPrefix + "schedule-group/" + name }

func scheduleARN(key string) string { return arnPrefix + "schedule/" + key }

// scheduleKey names a schedule of the account. Names have no slash.
func scheduleKey(group, name string) string { return group + "/" + name }
