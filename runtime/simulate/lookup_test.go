package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
)

// TestAnAnswerWithALostResponseIsLookedUp loses the response to the first try of every SendTaskSuccess in each workflow
// of infra/workflows. The second try finds that the task is over, and the execution's history shows that this answer
// ended the task.
func TestAnAnswerWithALostResponseIsLookedUp(t *testing.T) {
	t.Parallel()
	p := &plant{jobTakes: time.Hour, status: pipeline.JobSucceeded}
	uploads := durable.Host(upload.New(&files{}, upload.Config{Window: uploadWindow}), durable.MachineConfig{StartedBy: upload.StartedBy, Retention: upload.Retention})
	both := func(file, kind string) func(w *world) string {
		return func(w *world) string {
			execution := w.startWorkflow(file, kind, month)
			w.uploaded("warehouse", "w1", "10")
			w.uploaded("sales", "s1", "10")
			return execution
		}
	}
	for name, c := range map[string]struct {
		options options
		play    func(w *world) (execution string)
		path    string
	}{
		"job": {options{}, func(w *world) string {
			execution := w.startWorkflow("job.asl.json", "run-1", pickedUp)
			w.workflowJob(10, "queued", "")
			w.await(pickedUp, "queued")
			w.workflowJob(10, "in_progress", "")
			time.Sleep(time.Minute)
			w.workflowJob(10, "completed", "success")
			return execution
		}, "Queued PickedUp? InProgress Outcome Succeeded"},
		"job-relaunch": {options{job: job.Config{PickUpTimeout: time.Hour}}, func(w *world) string {
			w.workflowJob(10, "queued", "")
			execution := w.startWorkflow("job-relaunch.asl.json", "run-1", pickedUp)
			time.Sleep(6 * time.Minute)
			w.workflowJob(10, "in_progress", "")
			time.Sleep(5 * time.Minute)
			w.workflowJob(10, "completed", "success")
			return execution
		}, "Launched Queued LaunchesLeft? Relaunch Relaunched Queued PickedUp? InProgress Outcome Succeeded"},
		"enrich": {options{}, func(w *world) string {
			execution := w.enrich(demo, company)
			w.await(demo, "waiting")
			w.callBack(w.effects.callbackURL(company), found)
			return execution
		}, "Enrich"},
		"pipeline": {options{more: []durable.Machine{p.machine()}}, func(w *world) string {
			return w.startPipeline("run-1", "08:00")
		}, "Pipeline Outcome Succeeded"},
		"upload-warehouse": {options{more: []durable.Machine{uploads}}, both("upload-warehouse.asl.json", "warehouse"), "Warehouse Outcome Processed"},
		"upload-sales":     {options{more: []durable.Machine{uploads}}, both("upload-sales.asl.json", "sales"), "Sales Outcome Processed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			losing := &faults{losing: "states.SendTaskSuccess"}
			c.options.faults = losing
			inWorld(t, c.options, func(w *world) {
				path, end := w.ended(c.play(w))
				if path != c.path || strings.HasPrefix(end, "FAILED") {
					t.Errorf("want %s, got %s and %s", c.path, path, end)
				}
				time.Sleep(time.Hour)
				if parked := w.deadLetters(); parked != "0" {
					t.Errorf("want nothing parked, got %s", parked)
				}
			})
			tries, lookups := losing.count("states.SendTaskSuccess"), losing.count("states.GetExecutionHistory")
			if tries < 2 || lookups != tries/2 {
				t.Errorf("want two tries and one lookup per answer, got %d tries and %d lookups", tries, lookups)
			}
		})
	}
}
