package pipeline_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[pipeline.Context] {
		f := &fakes{
			ready: setup.Words("ready"), job: setup.Words("job"),
			evaluate: setup.Outcomes("evaluate"), trigger: setup.Outcomes("trigger"), check: setup.Outcomes("check"),
			stop: setup.Outcomes("stop"), publish: setup.Outcomes("publish"),
		}
		return pipeline.New(f.services(), pipeline.Config{})
	}).Require(t)
}

var update = flag.Bool("update", false, "write chart.svg")

func TestTheDrawingShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "chart.svg", chartsvg.Draw(pipeline.New(pipeline.Services{}, pipeline.Config{}).Outline(), chartsvg.Options{}), *update)
}

var slot = pipeline.Slot{Pipeline: "sales", Schedule: "daily", Date: "2026-01-01"}

// play starts a player of a pipeline with fakes.
func play(t *testing.T, f *fakes, config pipeline.Config) *statecharttest.Player[pipeline.Context] {
	t.Helper()
	return statecharttest.Play(t, pipeline.New(f.services(), config), statecharttest.Config{Instance: "pipeline/sales"})
}

func outcomes(t *testing.T, words ...string) *statecharttest.Outcomes {
	t.Helper()
	parsed, err := statecharttest.NewOutcomes(words...)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestAttemptsToStartTheJobShareOneKeyAndRunsDoNot(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, at := range []time.Time{statecharttest.Epoch, statecharttest.Epoch.Add(24 * time.Hour)} {
		f := newFakes()
		f.trigger = outcomes(t, "fail", "hang", "fail", "fail")
		p := statecharttest.Play(t, pipeline.New(f.services(), pipeline.Config{}), statecharttest.Config{Instance: "pipeline/sales", At: at})
		p.Send("START", pipeline.Start{Slot: slot})
		p.Advance(8 * time.Minute)
		if len(f.triggers) != 5 || p.State() != "run.active.job_running, sla.none" {
			t.Fatalf("expected a job at the fifth attempt, got %d in %s", len(f.triggers), p.State())
		}
		for i, request := range f.triggers {
			want := pipeline.TriggerRequest{IdempotencyKey: f.triggers[0].IdempotencyKey, Slot: slot, Attempt: i + 1}
			if diff := cmp.Diff(want, request); diff != "" {
				t.Errorf("attempt %d (-want +got):\n%s", i+1, diff)
			}
		}
		keys[f.triggers[0].IdempotencyKey] = true
	}
	if len(keys) != 2 {
		t.Errorf("expected one key per run, got %v", keys)
	}
}

func TestAlertsNameTheirSubject(t *testing.T) {
	t.Parallel()
	f := newFakes()
	f.ready = []string{"no", "no"}
	p := play(t, f, pipeline.Config{EvaluationInterval: 8 * time.Hour, EvaluationWindow: 9 * time.Hour})
	p.Send("START", pipeline.Start{Slot: slot, Config: pipeline.RunConfig{SLA: pipeline.SLA{Deadline: "07:00", ExpectedDurationSeconds: 600}}})
	p.Advance(9 * time.Hour)

	breachAt := time.Date(2026, 1, 1, 7, 0, 0, 0, time.UTC)
	var want []pipeline.Alert
	for key, typ := range map[string]pipeline.AlertType{"pipeline/sales/4.0": pipeline.SLAWarning, "pipeline/sales/6.0": pipeline.SLABreach, "pipeline/sales/10.0": pipeline.ValidationExhausted} {
		want = append(want, pipeline.Alert{IdempotencyKey: key, Type: typ, Slot: slot, WarningAt: breachAt.Add(-10 * time.Minute), BreachAt: breachAt})
	}
	byKey := cmpopts.SortSlices(func(a, b pipeline.Alert) int { return strings.Compare(a.IdempotencyKey, b.IdempotencyKey) })
	if diff := cmp.Diff(want, f.alerts, byKey); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

func TestAConfigChangeDoesNotAffectARunningRun(t *testing.T) {
	t.Parallel()
	f := newFakes()
	f.ready = []string{"no", "no", "no"}
	p := play(t, f, pipeline.Config{EvaluationInterval: 10 * time.Minute, EvaluationWindow: 20 * time.Minute})
	p.Send("START", pipeline.Start{Slot: slot})
	stored, err := json.Marshal(p.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	changed := pipeline.New(f.services(), pipeline.Config{EvaluationInterval: time.Hour, EvaluationWindow: time.Hour})
	restored, err := changed.Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	if c := restored.Context.Config; c.EvaluationIntervalSeconds != 600 || c.EvaluationWindowSeconds != 1200 {
		t.Errorf("expected the times of START, got %+v", c)
	}
}

func TestAJobWithoutAnIDWasNotStarted(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, pipeline.New(pipeline.Services{Data: newFakes(), Jobs: nameless{}, Alerts: newFakes()}, pipeline.Config{}), statecharttest.Config{})
	p.Send("START", pipeline.Start{Slot: slot})
	if got := p.State(); got != "run.active.backing_off, sla.none" {
		t.Errorf("expected another attempt, got %s", got)
	}
}

// TestAnUnknownStatusKeepsTheJobRunning: the run checks the job until it has succeeded, failed or run out of time.
func TestAnUnknownStatusKeepsTheJobRunning(t *testing.T) {
	t.Parallel()
	f := newFakes()
	f.job = []string{"pausing", "", "fail again"}
	p := statecharttest.Play(t, pipeline.New(f.services(), pipeline.Config{}), statecharttest.Config{})
	p.Send("START", pipeline.Start{Slot: slot})
	for checks := 1; checks <= len(f.job); checks++ {
		p.Advance(time.Minute)
		if got := p.State(); got != "run.active.job_running, sla.none" || f.checks != checks {
			t.Errorf("expected the job to run after %d checks, got %s after %d", checks, got, f.checks)
		}
	}
	p.Advance(time.Minute)
	if got := p.State(); got != "run.succeeded, sla.none" {
		t.Errorf("expected it to have succeeded, got %s", got)
	}
}

type nameless struct{ pipeline.Jobs }

func (nameless) Trigger(context.Context, pipeline.TriggerRequest) (pipeline.Job, error) {
	return pipeline.Job{}, nil
}

func TestALateTaskReceivesTheOutcome(t *testing.T) {
	t.Parallel()
	chart := pipeline.New(newFakes().services(), pipeline.Config{})
	p := statecharttest.Play(t, chart, statecharttest.Config{})
	p.Send("START", pipeline.Start{Slot: slot})
	p.Advance(time.Hour)
	answer, ok, err := chart.Resolving(p.Snapshot(), pipeline.WaitPipeline, statechart.Event{At: p.Now()})
	if !ok || err != nil || answer.Outcome != "succeeded" {
		t.Errorf("expected the answer succeeded, got %+v, %v, %v", answer, ok, err)
	}
}

func TestStartedByNamesStartAndTheWait(t *testing.T) {
	t.Parallel()
	p := play(t, newFakes(), pipeline.Config{})
	if want := append(p.Snapshot().NextEvents(), "settle.wait"); !slices.Equal(pipeline.StartedBy, want) {
		t.Errorf("expected %v, got %v", want, pipeline.StartedBy)
	}
}

func TestInvalidConfigPanicsBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]pipeline.Config{
		"pipeline.Config: expected EvaluationInterval in whole seconds, at least one, got -1s": {EvaluationInterval: -time.Second},
		"pipeline.Config: expected EvaluationWindow in whole seconds, at least one, got 1.5s":  {EvaluationWindow: 1500 * time.Millisecond},
		"pipeline.Config: expected JobCheckInterval in whole seconds, at least one, got 1ms":   {JobCheckInterval: time.Millisecond},
		"pipeline.Config: expected JobTimeLimit in whole seconds, at least one, got -1h0m0s":   {JobTimeLimit: -time.Hour},
		"pipeline.Config: expected a positive ServiceTimeout, got -1s":                         {ServiceTimeout: -time.Second},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("expected the panic %q, got %q", want, got)
				}
			}()
			pipeline.New(pipeline.Services{}, config)
		}()
	}
}
