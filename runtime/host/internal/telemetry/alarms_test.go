package telemetry

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
)

// rule is an alarm of the template on one of the functions' metrics.
type rule struct {
	name, metric, statistic string
	threshold               float64
	datapoints, periods     int
	period                  time.Duration
}

var (
	alarmPattern    = regexp.MustCompile(`(?m)^  (\w+)Alarm:\n    Type: AWS::CloudWatch::Alarm\n((?:     ?.*\n)*)`)
	propertyPattern = regexp.MustCompile(`(?m)^      (\w+): (.+)$`)
	// defaultPattern finds the parameters of the template that have a number as default.
	defaultPattern = regexp.MustCompile(`(?m)^  (\w+):\n    Type: Number\n    Default: (\d+)$`)
)

// rules returns the template's alarms on the functions' metrics and the alarms named in `others`, sorted by name.
func rules(t *testing.T, others ...string) (found []rule) {
	t.Helper()
	text, err := os.ReadFile("../../../../infra/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, parameter := range defaultPattern.FindAllStringSubmatch(string(text), -1) {
		defaults["!Ref "+parameter[1]] = parameter[2]
	}
	for _, alarm := range alarmPattern.FindAllStringSubmatch(string(text), -1) {
		properties := map[string]string{}
		for _, property := range propertyPattern.FindAllStringSubmatch(alarm[2], -1) {
			properties[property[1]] = property[2]
		}
		if properties["Namespace"] != namespace && !slices.Contains(others, alarm[1]) {
			continue
		}
		number := func(name, otherwise string) int {
			value, ok := properties[name]
			if !ok {
				value = properties[otherwise]
			}
			if otherwise, ok := defaults[value]; ok {
				value = otherwise
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: expected %s to be a number, got %q", alarm[1], name, value)
			}
			return n
		}
		if properties["ComparisonOperator"] != "GreaterThanThreshold" || properties["TreatMissingData"] != "notBreaching" {
			t.Fatalf("%s: expected an alarm above its threshold that ignores missing data, got %v", alarm[1], properties)
		}
		found = append(found, rule{
			name: alarm[1], metric: properties["MetricName"], statistic: properties["Statistic"], threshold: float64(number("Threshold", "")),
			datapoints: number("DatapointsToAlarm", "EvaluationPeriods"), periods: number("EvaluationPeriods", ""),
			period: time.Duration(number("Period", "")) * time.Second,
		})
	}
	slices.SortFunc(found, func(a, b rule) int { return strings.Compare(a.name, b.name) })
	return found
}

// value returns the statistic of the measurements in a period.
func (r rule) value(measured []measurement, from, to time.Time) (value float64) {
	for _, m := range measured {
		measurement, ok := m.values[r.metric]
		if !ok || m.at.Before(from) || !m.at.Before(to) {
			continue
		}
		switch r.statistic {
		case "Sum":
			value += measurement
		case "SampleCount":
			value++
		case "Maximum":
			value = max(value, measurement)
		default:
			panic("unknown statistic: " + r.statistic)
		}
	}
	return value
}

// ringing returns the times at which the alarms ring. Like CloudWatch, it evaluates the last periods every minute
// (Amazon CloudWatch User Guide, "Alarm evaluation window": a window slides by default).
func ringing(rules []rule, measured []measurement, began time.Time, length time.Duration) (rings []string) {
	for _, r := range rules {
		from := time.Duration(-1)
		for minute := time.Duration(0); minute <= length; minute += time.Minute {
			breaching := 0
			for i := range r.periods {
				to := began.Add(minute - time.Duration(i)*r.period)
				if r.value(measured, to.Add(-r.period), to) > r.threshold {
					breaching++
				}
			}
			switch rang := from >= 0; {
			case breaching >= r.datapoints && !rang:
				from = minute
			case breaching < r.datapoints && rang:
				rings = append(rings, fmt.Sprintf("%s from %v to %v", r.name, from, minute))
				from = -1
			}
		}
		if from >= 0 {
			rings = append(rings, fmt.Sprintf("%s from %v on", r.name, from))
		}
	}
	return rings
}

// scene is a failure of an instance and the alarms that it must raise.
type scene struct {
	script map[time.Duration]func(*stage)
	// `calls` returns the error of a call, and `service` returns the error of the service. Both count the time from the
	// start of the scene. A nil function means no errors.
	calls   func(name string, at time.Duration) error
	service func(at time.Duration) error
	length  time.Duration
	rings   []string
}

func posting(body string) func(*stage) { return func(s *stage) { s.post(`{"type":"` + body + `"}`) } }

// flood returns a function that posts that many events at once.
func flood(events int) func(*stage) {
	return func(s *stage) {
		for range events {
			s.post(`{"type":"NOTE"}`)
		}
	}
}

// failsFrom returns a function for scene.calls. It makes the calls with the given name fail with err, from the first
// hour to the time `until`. Each failed call lasts for the duration `takes`.
func failsFrom(name string, err error, takes time.Duration, until time.Duration) func(string, time.Duration) error {
	return func(called string, at time.Duration) error {
		if called != name || at < time.Hour || at >= until {
			return nil
		}
		time.Sleep(takes)
		return err
	}
}

func relaunches(answered bool) map[time.Duration]func(*stage) {
	script := map[time.Duration]func(*stage){}
	for i := range 12 {
		begin := time.Duration(i) * 302 * time.Second
		script[begin] = func(s *stage) { s.post(s.wait(fmt.Sprint("task ", i), 300*time.Second)) }
		script[begin+100*time.Second] = posting("NOTE")
		if answered {
			script[begin+280*time.Second] = posting("PICK")
			script[begin+290*time.Second] = posting("DROP")
		} else {
			script[begin+300*time.Second] = posting("NOTE") // before the loop checks whether the task has timed out
		}
	}
	return script
}

// TestAlarmsRingUntilTheProblemIsSolved plays the failures that the operations page describes for the template's
// alarms. Each alarm must ring without a gap: an alarm that stops between two retries suggests that the problem is
// solved.
func TestAlarmsRingUntilTheProblemIsSolved(t *testing.T) {
	t.Parallel()
	found := rules(t)
	if len(found) != 8 {
		t.Fatalf("expected eight alarms on the functions' metrics, got %v", found)
	}
	errBusy := errors.New("busy")
	noted := map[time.Duration]func(*stage){0: posting("NOTE"), time.Hour: posting("NOTE")}
	for name, c := range map[string]scene{
		"an unreadable item": {
			script: noted, calls: failsFrom("Load", durable.ErrUnreadable, time.Second, 7*time.Hour), length: 9 * time.Hour,
			rings: []string{"Faults from 1h1m0s to 7h15m0s", "Retried from 1h11m0s to 7h10m0s", "Unreadable from 1h1m0s to 7h15m0s"},
		},
		"no permission to read the table": {
			script: noted, calls: failsFrom("Load", durable.ErrDenied, time.Second, 7*time.Hour), length: 9 * time.Hour,
			rings: []string{"Faults from 1h1m0s to 7h15m0s", "Retried from 1h11m0s to 7h10m0s", "Unreadable from 1h1m0s to 7h15m0s"},
		},
		"a stuck instance": { // No event is parked, and no other event arrives.
			script: map[time.Duration]func(*stage){time.Hour: posting("BREAK")}, length: 3 * time.Hour,
			rings: []string{"Faults from 1h1m0s to 1h16m0s"},
		},
		"a dropped effect": {
			script: map[time.Duration]func(*stage){time.Hour: posting("TELL")},
			calls:  failsFrom("Send", durable.ErrRefused, time.Second, 6*time.Hour), length: 3 * time.Hour,
			rings: []string{"Faults from 1h1m0s to 1h16m0s"},
		},
		"an unavailable table for a minute": {
			script: noted, calls: failsFrom("Load", errBusy, time.Second, time.Hour+time.Minute), length: 3 * time.Hour,
		},
		"a failing service for hours": {
			script:  map[time.Duration]func(*stage){0: posting("CHARGE"), time.Hour: posting("NOTE")},
			service: func(at time.Duration) error { return map[bool]error{true: errBusy}[at < 8*time.Hour] }, length: 11 * time.Hour,
			rings: []string{"Unsettled from 22m0s to 9h16m0s"},
		},
		"a message that cannot be sent": {
			script: map[time.Duration]func(*stage){time.Hour: posting("TELL")},
			calls:  failsFrom("Send", errBusy, 20*time.Second, 6*time.Hour), length: 8 * time.Hour,
			rings: []string{"Outbox from 1h8m0s to 6h20m0s", "Retried from 1h11m0s to 6h10m0s"},
		},
		"tasks of five minutes, answered":  {script: relaunches(true), length: 2 * time.Hour},
		"tasks of five minutes, timed out": {script: relaunches(false), length: 2 * time.Hour},
		// The stage applies ten events a second.
		"a backlog of a minute": {script: map[time.Duration]func(*stage){0: posting("NOTE"), time.Hour: flood(600)}, length: 3 * time.Hour},
		"a backlog of over a minute": {
			script: map[time.Duration]func(*stage){0: posting("NOTE"), time.Hour: flood(1200)}, length: 3 * time.Hour,
			rings: []string{"Backlog from 1h2m0s to 1h17m0s"},
		},
		"a task that is about to time out": {
			script: map[time.Duration]func(*stage){
				0:                func(s *stage) { s.post(s.wait("task", time.Hour)) },
				54 * time.Minute: posting("NOTE"), // exactly a tenth of the time is left
				55 * time.Minute: posting("NOTE"), 90 * time.Minute: posting("NOTE"),
			},
			length: 3 * time.Hour, rings: []string{"TokenDeadline from 56m0s to 2h6m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, s := time.Now(), &stage{}
				if c.calls != nil {
					s.calls = func(name string) error { return c.calls(name, time.Since(began)) }
				}
				service := func() error { return c.service(time.Since(began)) }
				s.play(t, service, c.script, c.length)
				if diff := cmp.Diff(c.rings, ringing(found, s.measured, began, c.length)); diff != "" {
					t.Errorf("alarms (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTheAlarmOnEventsRingsWhileAChainLasts measures a busy stack, with a chain of events for 20 minutes.
func TestTheAlarmOnEventsRingsWhileAChainLasts(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var measured []measurement
	for minute := range 60 {
		events := 6_000. // 100 a second, the threshold by default
		if minute >= 20 && minute < 40 {
			events = 6_060
		}
		measured = append(measured, measurement{began.Add(time.Duration(minute) * time.Minute), map[string]float64{"Events": events}})
	}
	want := []string{"Events from 21m0s to 45m0s"}
	if diff := cmp.Diff(want, ringing(rules(t), measured, began, time.Hour)); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
}

// TestARunawayStopsAndRingsTheAlarmOnParkedEvents starts a chart that sends itself two messages for each one. HopsMax
// stops it far below the threshold of the alarm Events. The parked messages stay in the dead-letter queue, so
// DeadLetters rings until a person empties that queue. Their log lines ring Faults for a while.
func TestARunawayStopsAndRingsTheAlarmOnParkedEvents(t *testing.T) {
	t.Parallel()
	const length = time.Hour
	found := rules(t, "DeadLetters")
	script := map[time.Duration]func(*stage){30 * time.Second: posting("LOOP")}
	for minute := time.Duration(0); minute < length; minute += time.Minute {
		script[minute] = func(s *stage) { // SQS measures its queues each minute.
			s.measured = append(s.measured, measurement{time.Now(), map[string]float64{"ApproximateNumberOfMessagesVisible": float64(len(s.parked))}})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began, s := time.Now(), &stage{loops: true}
		s.play(t, nil, script, length)
		sum := func(metric string) float64 {
			return rule{metric: metric, statistic: "Sum"}.value(s.measured, began, began.Add(length))
		}
		// HopsMax is 1000 by default. A few messages got a lower count of hops, because the instance had not stored its
		// count yet.
		if events := sum("Events"); events <= 1000 || events > 1012 {
			t.Errorf("expected little more than 1,000 applied events, got %v", events)
		}
		parked := len(s.parked)
		if parked == 0 || sum("Parked") != float64(parked) {
			t.Errorf("expected parked messages and the same number in the metric Parked, got %d and %v", parked, sum("Parked"))
		}
		for _, reason := range s.parked {
			if !strings.Contains(reason, "(HopsMax)") {
				t.Errorf("expected the limit as the reason, got %s", reason)
			}
		}
		// The stage applies ten messages a second, so the chart also lags behind its own messages for a while.
		want := []string{"Backlog from 3m0s to 19m0s", "DeadLetters from 4m0s on", "Faults from 3m0s to 19m0s"}
		if diff := cmp.Diff(want, ringing(found, s.measured, began, length)); diff != "" {
			t.Errorf("alarms (-want +got):\n%s", diff)
		}
	})
}
