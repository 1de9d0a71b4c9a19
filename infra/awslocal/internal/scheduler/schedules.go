package scheduler

import (
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// schedule is one schedule.
type schedule struct {
	serial      uint64
	group, name string
	definition
	timing                timing // parsed from the definition
	createdAt, modifiedAt time.Time
	// next is the next occurrence, if the schedule is enabled and has not ended. It is zero for a one-time schedule
	// that has invoked its target.
	next time.Time
	// open counts the invocations in progress.
	open int
}

func (s *schedule) key() string { return scheduleKey(s.group, s.name) }

// arrange updates the schedule's entry in m.due after a change of the schedule. wasDue is the result of dueKey before
// the change.
func (m *Model) arrange(s *schedule, wasDue string) {
	if wasDue != "" {
		m.due.Delete(wasDue)
	}
	if due := s.dueKey(); due != "" {
		m.due.Set(due, task{at: s.next, schedule: s})
	}
	m.touched.Note(scheduleRecords + s.key())
}

// dueKey returns the schedule's key in m.due, or "" if the schedule has no next invocation.
func (s *schedule) dueKey() string {
	if s.complete() || s.State != "ENABLED" {
		return ""
	}
	return dueKey(s.next, s.serial)
}

// complete reports whether the schedule has no further occurrence.
func (s *schedule) complete() bool { return s.next.IsZero() || s.timing.ended(s.next) }

// checkSchedule validates a definition and sets its defaults.
func checkSchedule(d *definition) (timing, *wire.Error) {
	for _, member := range []struct {
		value    *string
		fallback string
	}{
		{&d.ActionAfterCompletion, "NONE"}, {&d.State, "ENABLED"}, {&d.ScheduleExpressionTimezone, "UTC"},
	} {
		if *member.value == "" {
			*member.value = member.fallback
		}
	}
	if err := checkEnum("actionAfterCompletion", d.ActionAfterCompletion, "NONE", "DELETE"); err != nil {
		return timing{}, err
	}
	if err := checkEnum("state", d.State, "ENABLED", "DISABLED"); err != nil {
		return timing{}, err
	}
	if err := checkLength("description", d.Description, 0, 512); err != nil {
		return timing{}, err
	}
	if err := checkWindow(d.FlexibleTimeWindow); err != nil {
		return timing{}, err
	}
	if d.ScheduleExpression == "" {
		return timing{}, missing("scheduleExpression")
	}
	t, err := parseTiming(d)
	if err != nil {
		return timing{}, err
	}
	return t, checkTarget(d.Target)
}

func checkWindow(w *flexibleTimeWindow) *wire.Error {
	switch {
	case w == nil:
		return missing("flexibleTimeWindow")
	case w.Mode == "FLEXIBLE" && w.MaximumWindowInMinutes == nil:
		return missing("flexibleTimeWindow.maximumWindowInMinutes")
	case w.Mode == "FLEXIBLE":
		return checkRange("flexibleTimeWindow.maximumWindowInMinutes", *w.MaximumWindowInMinutes, 1, 1440)
	case w.Mode == "OFF" && w.MaximumWindowInMinutes != nil:
		return validation("expected no MaximumWindowInMinutes with the FlexibleTimeWindow Mode OFF, got %d.", *w.MaximumWindowInMinutes)
	}
	return checkEnum("flexibleTimeWindow.mode", w.Mode, "OFF", "FLEXIBLE")
}

// readSchedule decodes the request of createSchedule or updateSchedule, and resolves its group.
func (m *Model) readSchedule(r *request) (*scheduleInput, timing, *wire.Error) {
	var in scheduleInput
	if err := wire.Decode(r.body, &in, "ValidationException"); err != nil {
		return nil, timing{}, err
	}
	if err := checkName("name", r.item); err != nil {
		return nil, timing{}, err
	}
	if err := m.resolveGroup(&in.GroupName); err != nil {
		return nil, timing{}, err
	}
	t, err := checkSchedule(&in.definition)
	return &in, t, err
}

func (m *Model) createSchedule(now time.Time, r *request) (any, *wire.Error) {
	in, t, err := m.readSchedule(r)
	if err != nil {
		return nil, err
	}
	return m.once(now, r, in.ClientToken, func() (any, *wire.Error) {
		key := scheduleKey(in.GroupName, r.item)
		if _, exists := m.schedules.Get(key); exists {
			return nil, conflict("Schedule %s already exists.", r.item)
		}
		if err := t.checkBounds(now); err != nil {
			return nil, err
		}
		s := &schedule{
			serial: m.nextSerial(), group: in.GroupName, name: r.item, definition: in.definition, timing: t,
			createdAt: now.UTC(), modifiedAt: now.UTC(), next: t.first(now.UTC()),
		}
		m.schedules.Set(key, s)
		m.arrange(s, "")
		return scheduleOutput{scheduleARN(key)}, nil
	})
}

// updateSchedule replaces the whole definition. If the expression and StartDate do not change, neither do the
// occurrences: a one-time schedule that has invoked its target does not invoke it again. A rate skips the occurrences
// during which it was disabled. A one-time schedule that was disabled when it came due invokes its target once a caller
// enables it.
func (m *Model) updateSchedule(now time.Time, r *request) (any, *wire.Error) {
	in, t, err := m.readSchedule(r)
	if err != nil {
		return nil, err
	}
	return m.once(now, r, in.ClientToken, func() (any, *wire.Error) {
		s, ok := m.schedules.Get(scheduleKey(in.GroupName, r.item))
		if !ok {
			return nil, noSuchSchedule(r.item)
		}
		same := t.every == s.timing.every && t.at.Equal(s.timing.at) && t.start.Equal(s.timing.start)
		if !same || !t.end.Equal(s.timing.end) {
			if err := t.checkBounds(now); err != nil {
				return nil, err
			}
		}
		wasDue, wasEnabled := s.dueKey(), s.State == "ENABLED"
		s.definition, s.timing, s.modifiedAt = in.definition, t, now.UTC()
		switch {
		case !same:
			s.next = t.first(now.UTC())
		case t.every > 0 && !wasEnabled && s.next.Before(now):
			s.next = t.after(t.latest(s.next, now.UTC()))
		}
		m.arrange(s, wasDue)
		return scheduleOutput{scheduleARN(s.key())}, nil
	})
}

// findSchedule returns the schedule identified by a path and its groupName.
func (m *Model) findSchedule(r *request) (*schedule, *wire.Error) {
	if err := checkName("name", r.item); err != nil {
		return nil, err
	}
	group := r.query.Get("groupName")
	if err := m.resolveGroup(&group); err != nil {
		return nil, err
	}
	s, ok := m.schedules.Get(scheduleKey(group, r.item))
	if !ok {
		return nil, noSuchSchedule(r.item)
	}
	return s, nil
}

func (m *Model) getSchedule(_ time.Time, r *request) (any, *wire.Error) {
	s, err := m.findSchedule(r)
	if err != nil {
		return nil, err
	}
	return getScheduleOutput{
		definition: s.definition, Arn: scheduleARN(s.key()), GroupName: s.group, Name: s.name,
		CreationDate: epoch(s.createdAt), LastModificationDate: epoch(s.modifiedAt),
	}, nil
}

// deleteSchedule deletes a schedule. A failed invocation in progress is still retried.
func (m *Model) deleteSchedule(now time.Time, r *request) (any, *wire.Error) {
	return m.once(now, r, r.query.Get("clientToken"), func() (any, *wire.Error) {
		s, err := m.findSchedule(r)
		if err != nil {
			return nil, err
		}
		m.removeSchedule(s)
		return empty{}, nil
	})
}

func (m *Model) removeSchedule(s *schedule) {
	if due := s.dueKey(); due != "" {
		m.due.Delete(due)
	}
	m.schedules.Delete(s.key())
	m.touched.Note(scheduleRecords + s.key())
}

// listSchedules lists schedules by group and name.
func (m *Model) listSchedules(_ time.Time, r *request) (any, *wire.Error) {
	page, err := readPage(r)
	if err != nil {
		return nil, err
	}
	group, state := r.query.Get("ScheduleGroup"), r.query.Get("State")
	if state != "" {
		if err := checkEnum("state", state, "ENABLED", "DISABLED"); err != nil {
			return nil, err
		}
	}
	begin := ""
	if group != "" {
		if err := m.resolveGroup(&group); err != nil {
			return nil, err
		}
		begin = scheduleKey(group, page.prefix)
	}
	out := listSchedulesOutput{Schedules: []scheduleSummary{}}
	for key, s := range m.schedules.From(max(begin, page.token)) {
		if !strings.HasPrefix(key, begin) {
			break
		}
		if !strings.HasPrefix(s.name, page.prefix) || state != "" && s.State != state {
			continue
		}
		if len(out.Schedules) == page.most {
			out.NextToken = key
			break
		}
		out.Schedules = append(out.Schedules, scheduleSummary{
			Arn: scheduleARN(key), GroupName: s.group, Name: s.name, State: s.State, Target: targetSummary{s.Target.Arn},
			CreationDate: epoch(s.createdAt), LastModificationDate: epoch(s.modifiedAt),
		})
	}
	return out, nil
}
