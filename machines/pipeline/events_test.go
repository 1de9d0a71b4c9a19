package pipeline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/pipeline"
)

func TestDeadlinesAreAbsoluteTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ date, sla, warning, breach string }{
		{"2026-01-01", `{"deadline":"08:00","expected_duration_seconds":1800}`, "2026-01-01T07:30:00Z", "2026-01-01T08:00:00Z"},
		{"2026-01-01", `{"deadline":"08:00","time_zone":"Europe/Oslo"}`, "2026-01-01T07:00:00Z", "2026-01-01T07:00:00Z"},
		{"2026-07-01", `{"deadline":"08:00","time_zone":"Europe/Oslo"}`, "2026-07-01T06:00:00Z", "2026-07-01T06:00:00Z"},
		{"2026-01-01", `{"deadline":"00:30","time_zone":"Asia/Tokyo","expected_duration_seconds":3600}`, "2025-12-31T14:30:00Z", "2025-12-31T15:30:00Z"},
		// Data that is due the next day may be due in the next month.
		{"2026-01-31", `{"deadline":"08:00","days_after":1}`, "2026-02-01T08:00:00Z", "2026-02-01T08:00:00Z"},
		// The day on which the clocks go forward has 23 hours.
		{"2026-03-28", `{"deadline":"08:00","time_zone":"Europe/Oslo"}`, "2026-03-28T07:00:00Z", "2026-03-28T07:00:00Z"},
		{"2026-03-29", `{"deadline":"08:00","time_zone":"Europe/Oslo"}`, "2026-03-29T06:00:00Z", "2026-03-29T06:00:00Z"},
		{"2026-01-01", `{"deadline":"2026-05-06T07:30:00+02:00","expected_duration_seconds":60}`, "2026-05-06T05:29:00Z", "2026-05-06T05:30:00Z"},
	} {
		p := play(t, newFakes(), pipeline.Config{})
		p.SendJSON(fmt.Sprintf(`{"type":"START","pipeline":"sales","schedule":"daily","date":%q,"config":{"sla":%s}}`, c.date, c.sla))
		got := p.Snapshot().Context
		if w, b := got.WarningAt.Format(time.RFC3339), got.BreachAt.Format(time.RFC3339); w != c.warning || b != c.breach {
			t.Errorf("%s %s: expected %s and %s, got %s and %s", c.date, c.sla, c.warning, c.breach, w, b)
		}
	}
}

func TestAnInvalidStartIsRefused(t *testing.T) {
	t.Parallel()
	good := map[string]any{"type": "START", "pipeline": "sales", "schedule": "daily", "date": "2026-01-01"}
	config := func(key string, value any) map[string]any {
		return map[string]any{"config": map[string]any{key: value}}
	}
	for want, change := range map[string]map[string]any{
		"expected a pipeline of 1 to 128 bytes, got 0":                           {"pipeline": ""},
		"expected a schedule of 1 to 128 bytes, got 129":                         {"schedule": strings.Repeat("s", 129)},
		"expected a date such as 2026-11-20":                                     {"date": "2026-02-30"},
		"expected evaluation_interval_seconds from 0 to 31622400, got -1":        config("evaluation_interval_seconds", -1),
		"expected evaluation_window_seconds from 0 to 31622400, got 31622401":    config("evaluation_window_seconds", 31622401),
		"expected job_check_interval_seconds from 0 to 31622400, got -1":         config("job_check_interval_seconds", -1),
		"expected job_time_limit_seconds from 0 to 31622400, got -1":             config("job_time_limit_seconds", -1),
		"expected expected_duration_seconds from 0 to 31622400, got -1":          config("sla", map[string]any{"deadline": "08:00", "expected_duration_seconds": -1}),
		"expected days_after from 0 to 366, got 367":                             config("sla", map[string]any{"deadline": "08:00", "days_after": 367}),
		"expected a deadline such as 08:00 or 2026-11-21T08:00:00+01:00":         config("sla", map[string]any{"deadline": "8 o'clock"}),
		"expected a time_zone of the IANA database, such as Europe/Oslo":         config("sla", map[string]any{"deadline": "08:00", "time_zone": "Middle/Earth"}),
		"expected a time_zone of the IANA database, such as Europe/Oslo (Local)": config("sla", map[string]any{"deadline": "08:00", "time_zone": "Local"}),
	} {
		body := map[string]any{}
		for _, part := range []map[string]any{good, change} {
			for key, value := range part {
				body[key] = value
			}
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		p := play(t, newFakes(), pipeline.Config{})
		err = p.Try(string(text))
		if err == nil || !strings.HasSuffix(err.Error(), ": "+strings.TrimSuffix(want, " (Local)")) {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
}
