package scheduler

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// timing holds the times at which a schedule invokes its target.
type timing struct {
	// `at` is the time of a one-time schedule.
	at time.Time
	// `every` is the interval of a rate. Zero means a one-time schedule.
	every time.Duration
	// `start` and `end` bound a rate. Zero means no bound. One-time schedules ignore them.
	start, end time.Time
}

const (
	atLayout = "2006-01-02T15:04:05"
	// startGrace is how far a StartDate may lie in the past.
	startGrace = 5 * time.Minute
	// yearMin and yearMax bound the years of an at(), in UTC. AWS does not document its bounds.
	yearMin = 1900
	yearMax = 9999
)

var ratePattern = regexp.MustCompile(`^rate\(([1-9][0-9]{0,4}) (minute|hour|day)s?\)$`)

var units = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// parseTiming parses the expression of a schedule, in its time zone. If a clock change in the zone skips or repeats the
// time of an at(), package time chooses the instant.
func parseTiming(d *definition) (timing, *wire.Error) {
	var t timing
	if d.StartDate != nil {
		t.start = d.StartDate.time()
	}
	if d.EndDate != nil {
		t.end = d.EndDate.time()
	}
	zone, err := time.LoadLocation(d.ScheduleExpressionTimezone)
	if err != nil || d.ScheduleExpressionTimezone == "Local" {
		return timing{}, validation("Invalid ScheduleExpressionTimezone %s: expected a name of the IANA time zone "+
			"database, such as Europe/Paris.", d.ScheduleExpressionTimezone)
	}
	invalid := validation("Invalid Schedule Expression %s.", d.ScheduleExpression)
	if text, ok := strings.CutPrefix(d.ScheduleExpression, "at("); ok {
		text, closed := strings.CutSuffix(text, ")")
		at, err := time.ParseInLocation(atLayout, text, zone)
		if !closed || err != nil || len(text) != len(atLayout) {
			return timing{}, invalid
		}
		t.at = at.UTC()
		if t.at.Year() < yearMin || t.at.Year() > yearMax {
			return timing{}, invalid
		}
		return t, nil
	}
	if rate := ratePattern.FindStringSubmatch(d.ScheduleExpression); rate != nil {
		value, err := strconv.Atoi(rate[1])
		if err != nil {
			return timing{}, invalid
		}
		t.every = time.Duration(value) * units[rate[2]]
		return t, nil
	}
	if strings.HasPrefix(d.ScheduleExpression, "cron(") {
		return timing{}, validation("awslocal does not support cron expressions, got %s; use at() or rate().", d.ScheduleExpression)
	}
	return timing{}, invalid
}

// first returns the first occurrence of a schedule that is created at the time `now`. A schedule whose at() lies in the
// past invokes its target at once, as in AWS. A rate without StartDate starts at `now`.
func (t timing) first(now time.Time) time.Time {
	switch {
	case t.every == 0:
		return t.at
	case t.start.IsZero():
		return now
	}
	return t.start
}

// latest returns the last occurrence that is not after the time `now`, starting from `next`. It skips earlier
// occurrences: a model that is advanced late, for example after a restart, performs one invocation for all of them.
func (t timing) latest(next, now time.Time) time.Time {
	if t.every == 0 {
		return next
	}
	if !t.end.IsZero() && t.end.Before(now) {
		now = t.end
	}
	return next.Add(now.Sub(next).Truncate(t.every))
}

// after returns the next occurrence, even if it lies after the end. Zero means that no occurrence follows.
func (t timing) after(occurrence time.Time) time.Time {
	if t.every == 0 {
		return time.Time{}
	}
	return occurrence.Add(t.every)
}

// ended reports whether an occurrence lies after the end. A rate still invokes its target at its EndDate.
func (t timing) ended(occurrence time.Time) bool {
	return t.every > 0 && !t.end.IsZero() && occurrence.After(t.end)
}

// checkBounds rejects a rate whose StartDate or EndDate is invalid at the time `now`.
func (t timing) checkBounds(now time.Time) *wire.Error {
	switch {
	case t.every == 0:
		return nil
	case !t.start.IsZero() && t.start.Before(now.Add(-startGrace)):
		return validation("The StartDate you specify cannot be earlier than 5 minutes ago.")
	case !t.end.IsZero() && t.end.Before(now):
		return validation("The EndDate you specify cannot be in the past.")
	case !t.end.IsZero() && !t.end.After(t.start):
		return validation("The EndDate you specify must be later than the StartDate.")
	}
	return nil
}
