// Package scheduler models Amazon EventBridge Scheduler: schedules, their groups, and their invocations. A Model is a
// pure state machine: it starts no goroutines, takes no locks, reads no clock and sends nothing. Every method takes
// the time, which must not run backwards. IDs derive from counters. The same calls therefore always return the same
// answers.
//
// The model follows the EventBridge Scheduler API Reference (2021-06-30) and the EventBridge Scheduler User Guide.
// Where they leave a choice, the code documents its choice. The model rejects unsupported features with an error that
// names them: all targets except SQS, cron expressions, and KMS keys.
//
// AWS invokes a target within one minute of the scheduled time (User Guide, "Schedule types in EventBridge
// Scheduler"). The model invokes it in the exact second, and at the start of a flexible time window. Do not rely on
// this precision on AWS.
package scheduler

import (
	"encoding/binary"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Model holds the schedules of one account. It is not safe for concurrent use.
//
// Serve answers calls and sends nothing. Time passes only in Advance. Advance the model to the time of a call before
// and after the call, and perform the firings:
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
	invocations map[uint64]*invocation // in progress, by serial
	due         ordered.Map[task]      // time-driven work, by dueKey
	firings     []Firing               // firings that TakeFirings has not returned yet
	tokens      tokens
	serial      uint64 // the last assigned serial
	touched     record.Touched
}

// task is work that is due at a time. Exactly one of schedule and invocation is set.
type task struct {
	at         time.Time
	schedule   *schedule   // the schedule to invoke
	invocation *invocation // the invocation to retry
}

// New returns a model with the group "default" and no schedules.
func New() *Model {
	m := &Model{invocations: make(map[uint64]*invocation)}
	// The default group exists in every account.
	m.groups.Set(defaultGroup, &group{name: defaultGroup, createdAt: time.Unix(0, 0).UTC(), modifiedAt: time.Unix(0, 0).UTC()})
	return m
}

// Next returns the earliest time at which Advance has work. It may lie in the past. False means never.
func (m *Model) Next() (time.Time, bool) {
	for _, next := range m.due.From("") {
		return next.at, true
	}
	return time.Time{}, false
}

// nextSerial returns the next serial. Serials increase and are never reused.
func (m *Model) nextSerial() uint64 {
	m.serial++
	m.touched.Note(serialRecord)
	return m.serial
}

// dueKey orders tasks by time, then by the serial of their schedule or invocation.
func dueKey(at time.Time, serial uint64) string {
	return timeKey(at) + string(binary.BigEndian.AppendUint64(nil, serial))
}

// timeKey returns a key that sorts like the time. It flips the sign bit of the seconds, so that times before 1970 sort
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

// scheduleKey returns the key of a schedule. Names contain no slash.
func scheduleKey(group, name string) string { return group + "/" + name }
