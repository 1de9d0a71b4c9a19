package scheduler

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // where a machine has no zone database, zones are known all the same

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// timing says when a schedule invokes its target.
type timing struct {
	// at is the instant of a one-time schedule.
	at time.Time
	// every is the interval of a rate; zero is a one-time schedule.
	every time.Duration
	// start and end bound a rate; a one-time schedule ignores them. Zero is no bound.
	start, end time.Time
}

const (
	atLayout = "2006-01-02T15:04:05"
	// startGrace is how far back a StartDate may lie.
	startGrace = 5 * time.Minute
	// yearMin and yearMax bound the years of an at(), in UTC. AWS does not say its own.
	yearMin = 1900
	yearMax = 9999
)

var ratePattern = regexp.MustCompile(`^rate\(([1-9][0-9]{0,4}) (minute|hour|day)s?\)$`)

var units = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// parseTiming reads the expression of a schedule, in its time zone. An at() that the zone's
// clocks skip or show twice means what package time takes it for.
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

// first returns the first occurrence of a schedule made now: an at() that has passed is
// invoked at once, as AWS takes it too, and a rate without StartDate begins now.
func (t timing) first(now time.Time) time.Time {
	switch {
	case t.every == 0:
		return t.at
	case t.start.IsZero():
		return now
	}
	return t.start
}

// latest returns the last of the occurrences that begin with next which is not after now.
// Occurrences before it are not made up for: whoever advances a model late, such as after a
// restart, gets one invocation for all of them.
func (t timing) latest(next, now time.Time) time.Time {
	if t.every == 0 {
		return next
	}
	if !t.end.IsZero() && t.end.Before(now) {
		now = t.end
	}
	return next.Add(now.Sub(next).Truncate(t.every))
}

// after returns the occurrence that follows one, whatever the end; zero is none.
func (t timing) after(occurrence time.Time) time.Time {
	if t.every == 0 {
		return time.Time{}
	}
	return occurrence.Add(t.every)
}

// ended reports whether an occurrence lies after the end. A rate is invoked at its EndDate
// still.
func (t timing) ended(occurrence time.Time) bool {
	return t.every > 0 && !t.end.IsZero() && occurrence.After(t.end)
}

// checkBounds refuses dates that no new rate can have.
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
