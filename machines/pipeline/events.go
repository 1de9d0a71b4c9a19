package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	// Deadlines need the time zone database, which some systems lack.
	_ "time/tzdata"
)

// Limits of START.
const (
	// NameBytesMax limits the names of a Slot.
	NameBytesMax = 128
	// SecondsMax limits intervals, windows and durations: a year.
	SecondsMax = 366 * 24 * 60 * 60
	// DaysAfterMax limits SLA.DaysAfter.
	DaysAfterMax = 366
)

// Slot identifies a run: a pipeline, for one date of one of its schedules.
type Slot struct {
	Pipeline string `json:"pipeline"`
	Schedule string `json:"schedule"`
	// Date is the day of the data, as in 2026-11-20.
	Date string `json:"date"`
}

// Start is the payload of START.
type Start struct {
	Slot
	Config RunConfig `json:"config,omitzero"`
}

// RunConfig is the part of a pipeline's configuration that a run needs. Zero values default to Config.
type RunConfig struct {
	EvaluationIntervalSeconds int `json:"evaluation_interval_seconds,omitempty"`
	// EvaluationWindowSeconds is how long the run waits for the data, counted from START.
	EvaluationWindowSeconds int `json:"evaluation_window_seconds,omitempty"`
	JobCheckIntervalSeconds int `json:"job_check_interval_seconds,omitempty"`
	// JobTimeLimitSeconds is how long the run waits for the job, counted from the job's start.
	JobTimeLimitSeconds int `json:"job_time_limit_seconds,omitempty"`
	// SLA is zero for a run without a service level.
	SLA SLA `json:"sla,omitzero"`
}

// SLA is the deadline for a run's success. Its times are absolute, even if the run starts late.
type SLA struct {
	// Deadline is a time of day such as "08:00", on the slot's date in TimeZone, or a time such as
	// "2026-11-21T08:00:00+01:00". If a clock change skips or repeats a time of day, either offset may apply.
	Deadline string `json:"deadline"`
	// TimeZone is a name in the IANA database such as "Europe/Oslo". Empty means UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// DaysAfter moves a time of day to a later date. It is 1 if a day's data is processed the next day.
	DaysAfter int `json:"days_after,omitempty"`
	// ExpectedDurationSeconds is the usual duration of the work. The warning is due this long before the deadline: work
	// that starts later usually misses the deadline.
	ExpectedDurationSeconds int `json:"expected_duration_seconds,omitempty"`
}

// Validate checks the whole request, so that an invalid run is rejected before it starts.
func (s Start) Validate() error {
	for _, name := range []struct{ key, value string }{{"pipeline", s.Pipeline}, {"schedule", s.Schedule}} {
		if name.value == "" || len(name.value) > NameBytesMax {
			return fmt.Errorf("expected a %s of 1 to %d bytes, got %d", name.key, NameBytesMax, len(name.value))
		}
	}
	if _, err := time.Parse(time.DateOnly, s.Date); err != nil {
		return errors.New("expected a date such as 2026-11-20")
	}
	for _, limit := range []struct {
		key   string
		value int
	}{
		{"evaluation_interval_seconds", s.Config.EvaluationIntervalSeconds},
		{"evaluation_window_seconds", s.Config.EvaluationWindowSeconds},
		{"job_check_interval_seconds", s.Config.JobCheckIntervalSeconds},
		{"job_time_limit_seconds", s.Config.JobTimeLimitSeconds},
		{"expected_duration_seconds", s.Config.SLA.ExpectedDurationSeconds},
	} {
		if limit.value < 0 || limit.value > SecondsMax {
			return fmt.Errorf("expected %s from 0 to %d, got %d", limit.key, SecondsMax, limit.value)
		}
	}
	if s.Config.SLA == (SLA{}) {
		return nil
	}
	if n := s.Config.SLA.DaysAfter; n < 0 || n > DaysAfterMax {
		return fmt.Errorf("expected days_after from 0 to %d, got %d", DaysAfterMax, n)
	}
	_, _, err := s.Config.SLA.times(s.Date)
	return err
}

// times returns the due times of the warning and the breach for a slot on the date.
func (s SLA) times(date string) (warningAt, breachAt time.Time, err error) {
	breachAt, err = time.Parse(time.RFC3339, s.Deadline)
	if err != nil {
		breachAt, err = s.timeOfDay(date)
	}
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	breachAt = breachAt.UTC()
	return breachAt.Add(-seconds(s.ExpectedDurationSeconds)), breachAt, nil
}

func (s SLA) timeOfDay(date string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}, errors.New("expected a date such as 2026-11-20")
	}
	clock, err := time.Parse("15:04", s.Deadline)
	if err != nil {
		return time.Time{}, errors.New("expected a deadline such as 08:00 or 2026-11-21T08:00:00+01:00")
	}
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "Local" { // Local depends on the system
		return time.Time{}, errors.New("expected a time_zone of the IANA database, such as Europe/Oslo")
	}
	return time.Date(day.Year(), day.Month(), day.Day()+s.DaysAfter, clock.Hour(), clock.Minute(), 0, 0, zone), nil
}

func (r RunConfig) withDefaults(config Config) RunConfig {
	r.EvaluationIntervalSeconds = cmp.Or(r.EvaluationIntervalSeconds, int(config.EvaluationInterval/time.Second))
	r.EvaluationWindowSeconds = cmp.Or(r.EvaluationWindowSeconds, int(config.EvaluationWindow/time.Second))
	r.JobCheckIntervalSeconds = cmp.Or(r.JobCheckIntervalSeconds, int(config.JobCheckInterval/time.Second))
	r.JobTimeLimitSeconds = cmp.Or(r.JobTimeLimitSeconds, int(config.JobTimeLimit/time.Second))
	return r
}
