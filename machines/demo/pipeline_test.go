package demo_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func TestPlantRunsAPipelineWithLateData(t *testing.T) {
	t.Parallel()
	plant := &demo.Plant{Logger: slog.New(slog.DiscardHandler)}
	p := statecharttest.Play(t, pipeline.New(pipeline.Services{Data: plant, Jobs: plant, Alerts: plant}, pipeline.Config{}), statecharttest.Config{})
	p.Send("START", pipeline.Start{Slot: pipeline.Slot{Pipeline: "sales", Schedule: "daily", Date: "2026-01-01"}})
	p.Advance(5*time.Minute + 3*time.Minute)
	if got := p.Snapshot().Context; got.Outcome != "succeeded" || got.Evaluations != 2 || got.Checks != 3 {
		t.Errorf("expected success after 2 evaluations and 3 checks of the job, got %+v", got)
	}
}
