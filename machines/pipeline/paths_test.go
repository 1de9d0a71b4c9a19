package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// triggerAttemptsMax limits the attempts to start the job on each path.
const triggerAttemptsMax = 2

// broken is a jobs service that temporarily cannot start jobs.
type broken struct{ pipeline.Jobs }

func (broken) Trigger(context.Context, pipeline.TriggerRequest) (pipeline.Job, error) {
	return pipeline.Job{}, errors.New("too many concurrent runs")
}

// paths returns a chart and the events that reach all of its states. Its Identity ignores most times and counts, so
// that the exploration ends.
func paths() (*statechart.Chart[pipeline.Context], statecharttest.PathConfig[pipeline.Context]) {
	start := func(config pipeline.RunConfig) pipeline.Start {
		config.EvaluationIntervalSeconds, config.EvaluationWindowSeconds = 60, 90
		config.JobCheckIntervalSeconds, config.JobTimeLimitSeconds = 60, 90
		return pipeline.Start{Slot: slot, Config: config}
	}
	agreed := pipeline.RunConfig{SLA: pipeline.SLA{Deadline: "00:02", ExpectedDurationSeconds: 100}}
	late := pipeline.RunConfig{SLA: pipeline.SLA{Deadline: "2025-12-31T00:00:00Z"}}
	f := newFakes()
	chart := pipeline.New(pipeline.Services{Data: f, Jobs: broken{f}, Alerts: f}, pipeline.Config{
		TriggerRetry: statechart.RetryPolicy{Attempts: triggerAttemptsMax, Interval: 30 * time.Second},
	})
	fail := statecharttest.Outcome{Name: "broken", Err: errors.New("broken")}
	return chart, statecharttest.PathConfig[pipeline.Context]{
		Events: []statecharttest.Event{
			{Type: "START", Payload: start(pipeline.RunConfig{}), Name: "START without a service level"},
			{Type: "START", Payload: start(agreed), Name: "START"},
			{Type: "START", Payload: start(late), Name: "START after the deadline"},
			{Type: "CANCEL"}, {Type: "DATA_CHANGED"}, {Type: "JOB_CHANGED"},
		},
		Outcomes: func(i statechart.Invocation) []statecharttest.Outcome {
			result := func(name string, value any) statecharttest.Outcome {
				return statecharttest.Outcome{Name: name, Result: value}
			}
			switch i.Service {
			case "evaluate":
				return []statecharttest.Outcome{result("ready", pipeline.Readiness{Ready: true}), result("not ready", pipeline.Readiness{}), fail}
			case "trigger":
				return []statecharttest.Outcome{result("", pipeline.Job{ID: "jr_1"}), {Name: "not now"}, fail}
			case "check":
				return []statecharttest.Outcome{
					result("success", pipeline.Progress{Status: pipeline.JobSucceeded}), result("fail", pipeline.Progress{Status: pipeline.JobFailed}),
					result("timeout", pipeline.Progress{Status: pipeline.JobTimedOut}), result("running", pipeline.Progress{}), fail,
				}
			default:
				return []statecharttest.Outcome{result("", struct{}{}), fail}
			}
		},
		Identity: func(s statechart.Snapshot[pipeline.Context]) string {
			c := s.Context
			last := slices.ContainsFunc(s.Timers, func(t statechart.Timer) bool {
				return t.At.Equal(c.WindowEndsAt) || t.At.Equal(c.JobTimeIsUpAt)
			})
			return fmt.Sprint(s.State(), c.Outcome, c.SLA, c.Reached, c.BreachAt, c.TriggerAttempts, last, c.AlertsLost > 0)
		},
	}
}

func TestEveryOutcomeAndEveryVerdictCanBeReached(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	if _, err := statecharttest.FinalPaths(chart, config); err != nil {
		t.Error(err)
	}
}

func TestOnEveryPathTheOutputMatchesBothRegionsAndNoTimerIsLeft(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	config.Invariant = func(s statechart.Snapshot[pipeline.Context]) error {
		if s.Context.TriggerAttempts > triggerAttemptsMax {
			return fmt.Errorf("expected at most %d attempts, got %d", triggerAttemptsMax, s.Context.TriggerAttempts)
		}
		if s.Status != statechart.Done {
			return nil
		}
		var output pipeline.Output
		if err := json.Unmarshal(s.Output, &output); err != nil {
			return err
		}
		if want := []string{"run." + output.Outcome, "sla." + output.SLA}; !slices.Equal(s.State(), want) || len(s.Timers) > 0 {
			return fmt.Errorf("in %v with %d timers: expected a matching output and no timers, got %+v", s.State(), len(s.Timers), output)
		}
		return nil
	}
	statecharttest.RunPaths(t, chart, config, nil)
}

// TestEverySettledStateOfTheWorkAcceptsCancel shows that waiting never delays the next event: every state of the work
// that waits is settled and accepts CANCEL.
func TestEverySettledStateOfTheWorkAcceptsCancel(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	found, err := statecharttest.ShortestPaths(chart, config)
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]bool{}
	for _, path := range found {
		s := path.Snapshot()
		if !s.Settled() || !s.Matches("run.active") {
			continue
		}
		waits[s.State()[0]] = true
		if can, err := chart.Can(s, statechart.Event{Type: "CANCEL", At: statecharttest.Epoch}); !can || err != nil {
			t.Errorf("in %v: expected CANCEL to be accepted, got %v, %v", s.State(), can, err)
		}
	}
	for _, state := range []string{"not_ready", "backing_off", "job_running"} {
		if !waits["run.active."+state] {
			t.Errorf("expected a path to a wait in %s, got %v", state, slices.Sorted(maps.Keys(waits)))
		}
	}
}
