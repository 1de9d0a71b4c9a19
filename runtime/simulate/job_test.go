package simulate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/instances"
)

// realJob is the only job in GitHub's examples with webhooks for its whole life.
const realJob = "job/run-2202229078-job-289782451"

// exampleLabels are the labels of realJob, and of every queued job in the examples.
var exampleLabels = []string{"ubuntu-latest"}

// realWebhooks returns the payloads of realJob, by status, or by conclusion for the completed job.
func realWebhooks(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	payloads := map[string]json.RawMessage{}
	for _, e := range readExamples(t) {
		if e.instance != realJob {
			continue
		}
		phase := e.status
		if e.conclusion != "" {
			phase = e.conclusion
		}
		payloads[phase] = e.payload
	}
	for _, phase := range []string{"queued", "in_progress", "success", "failure"} {
		if payloads[phase] == nil {
			t.Fatalf("expected an example of %s with %s", realJob, phase)
		}
	}
	return payloads
}

// moment is the expected state of the job at a time after it was queued.
type moment struct {
	at time.Duration
	// webhook arrives at that time, if set.
	webhook string
	// `state` and `launches` are the values one second later.
	state    string
	launches int
}

// jobCases are the lives of a job.
var jobCases = map[string]struct {
	moments []moment
	// changes lists the instance's changes of state, with the whole seconds since the job was queued.
	changes []string
	// paths lists the states that an execution enters: first of the workflow job, then of job-relaunch.
	paths [2]string
	end   string
}{
	"picked up in time": {
		moments: []moment{
			{0, "", "queued", 1},
			{298 * time.Second, "in_progress", "in_progress", 1},
			{300 * time.Second, "", "in_progress", 1}, // the pick-up timeout has no effect
			{2 * time.Hour, "success", "success", 1},
		},
		changes: []string{"0 launching", "0 queued", "298 in_progress", "7200 success"},
		paths:   [2]string{"Queued PickedUp? InProgress Outcome Succeeded", "Launched Queued PickedUp? InProgress Outcome Succeeded"},
		end:     `"outcome":"success"`,
	},
	"picked up by the second runner": {
		moments: []moment{
			{0, "", "queued", 1},
			{298 * time.Second, "", "queued", 1},
			{300 * time.Second, "", "queued", 2},
			{400 * time.Second, "in_progress", "in_progress", 2},
			{601 * time.Second, "", "in_progress", 2},
			{time.Hour, "failure", "failure", 2},
		},
		changes: []string{"0 launching", "0 queued", "300 launching", "300 queued", "400 in_progress", "3600 failure"},
		paths: [2]string{
			"Queued PickedUp? InProgress Outcome Failed",
			"Launched Queued LaunchesLeft? Relaunch Relaunched Queued PickedUp? InProgress Outcome Failed",
		},
		end: "FAILED Job.Failed",
	},
	"never picked up": {
		moments: []moment{
			{298 * time.Second, "", "queued", 1},
			{300 * time.Second, "", "queued", 2},
			{598 * time.Second, "", "queued", 2},
			{600 * time.Second, "", "queued", 3},
			{898 * time.Second, "", "queued", 3},
			{900 * time.Second, "", "not_picked_up", 3},
			{901 * time.Second, "in_progress", "not_picked_up", 3}, // the job is finished, so the webhook changes nothing
		},
		changes: []string{"0 launching", "0 queued", "300 launching", "300 queued", "600 launching", "600 queued", "900 not_picked_up"},
		paths: [2]string{
			"Queued PickedUp? Outcome NotPickedUp",
			"Launched Queued" + strings.Repeat(" LaunchesLeft? Relaunch Relaunched Queued", 3) + " PickedUp? Outcome NotPickedUp",
		},
		end: "FAILED Job.NotPickedUp",
	},
	"in progress for too long": {
		moments: []moment{
			{10 * time.Second, "in_progress", "in_progress", 1},
			{(10 + 21_598) * time.Second, "", "in_progress", 1},
			{(10 + 21_600) * time.Second, "", "overdue", 1},
			{(10 + 21_602) * time.Second, "success", "overdue", 1},
		},
		changes: []string{"0 launching", "0 queued", "10 in_progress", "21610 overdue"},
		paths:   [2]string{"Queued PickedUp? InProgress Outcome Overdue", "Launched Queued PickedUp? InProgress Outcome Overdue"},
		end:     "FAILED Job.Overdue",
	},
}

// TestAJobFollowsItsTimes plays the lives of a job with GitHub's own webhooks, with every combination of waiting
// workflows. The job changes its state at the same times, whether the chart or a workflow counts the 300 seconds.
func TestAJobFollowsItsTimes(t *testing.T) {
	t.Parallel()
	byWorkflow := job.Config{PickUpTimeout: time.Hour}
	for arrangement, a := range map[string]struct {
		workflow int // an index into paths, or -1
		config   job.Config
	}{
		"nobody waits": {workflow: -1},
		"a workflow waits, and the chart launches again":           {workflow: 0},
		"a workflow waits and makes the chart launch again":        {workflow: 1, config: byWorkflow},
		"a workflow waits, and both it and the chart launch again": {workflow: 1},
	} {
		for life, c := range jobCases {
			t.Run(life+", "+arrangement, func(t *testing.T) {
				t.Parallel()
				webhooks, config := realWebhooks(t), a.config
				config.Labels = exampleLabels
				inWorld(t, options{job: config}, func(w *world) {
					queued := time.Now()
					w.deliver("queued", "workflow_job", webhooks["queued"])
					execution := ""
					if a.workflow >= 0 {
						file := []string{"job.asl.json", "job-relaunch.asl.json"}[a.workflow]
						execution = w.startWorkflow(file, "run-1", realJob)
					}
					for i, m := range c.moments {
						time.Sleep(time.Until(queued.Add(m.at)))
						if m.webhook != "" {
							w.deliver(fmt.Sprint("delivery-", i), "workflow_job", webhooks[m.webhook])
						}
						time.Sleep(time.Second)
						w.wantJob(m)
					}
					record := w.record(realJob)
					if diff := cmp.Diff(c.changes, changes(queued, record.History)); diff != "" {
						w.t.Errorf("changes of state (-want +got):\n%s", diff)
					}
					if launched := w.effects.distinct("launch"); launched != c.moments[len(c.moments)-1].launches {
						w.t.Errorf("want %d runners launched, got %d", c.moments[len(c.moments)-1].launches, launched)
					}
					if a.workflow >= 0 {
						path, end := w.ended(execution)
						// The task and the chart time out at the same instant. Either may report first.
						path = strings.Replace(path, "InProgress Overdue", "InProgress Outcome Overdue", 1)
						if path != c.paths[a.workflow] || !strings.Contains(end, c.end) {
							w.t.Errorf("want %s and %s, got %s and %s", c.paths[a.workflow], c.end, path, end)
						}
					}
					w.wantForgotten()
				})
			})
		}
	}
}

// wantJob reads the state of the job from the table and from the gateway.
func (w *world) wantJob(m moment) {
	w.t.Helper()
	var shown struct {
		State   []string
		Context job.Context
	}
	code, body := w.get("/instances/" + realJob)
	if err := json.Unmarshal(body, &shown); err != nil || code != http.StatusOK {
		w.t.Fatalf("after %v: GET answers %d, %s: %v", m.at, code, body, err)
	}
	want := []string{m.state}
	if stored := w.record(realJob).State; !slices.Equal(stored, want) || !slices.Equal(shown.State, want) || shown.Context.Launches != m.launches {
		w.t.Errorf("after %v: want %s with %d launches, the table has %v and the gateway %v with %d", m.at, m.state, m.launches, stored, shown.State, shown.Context.Launches)
	}
}

// wantForgotten waits until the item of the finished job has expired and is deleted.
func (w *world) wantForgotten() {
	w.t.Helper()
	record := w.record(realJob)
	if len(record.Tokens) > 0 || owing(record) > 0 || record.Error != nil || w.deadLetters() != "0" {
		w.t.Errorf("want nothing left to do, got %d tokens, %d effects, %v, and %s parked", len(record.Tokens), owing(record), record.Error, w.deadLetters())
	}
	if record.ExpireAt.IsZero() {
		w.t.Fatalf("want the job finished and its item to expire, got %v", record.State)
	}
	const retention = 15 * 24 * time.Hour
	var over time.Time
	for _, h := range record.History {
		if !h.Ignored {
			over = h.At
		}
	}
	if kept := record.ExpireAt.Sub(over); kept < retention || kept > retention+2*time.Second {
		w.t.Errorf("want the item kept for %v after %v, got %v", retention, over, kept)
	}
	time.Sleep(time.Until(record.ExpireAt) - time.Second)
	if code, _ := w.get("/instances/" + realJob); code != http.StatusOK {
		w.t.Errorf("want the item kept until it expires, got %d", code)
	}
	time.Sleep(time.Hour) // DynamoDB deletes expired items later
	if code, _ := w.get("/instances/" + realJob); code != http.StatusNotFound || w.record(realJob).Revision != 0 {
		w.t.Errorf("want the item deleted after it has expired, got %d and revision %d", code, w.record(realJob).Revision)
	}
}

// changes returns the changes of state in a history, with the whole seconds since a time.
func changes(since time.Time, history []instances.Transition) []string {
	var lines []string
	for _, h := range history {
		if !h.Ignored {
			lines = append(lines, fmt.Sprintf("%d %s", h.At.Sub(since)/time.Second, strings.Join(h.To, " ")))
		}
	}
	return lines
}

// get sends a request to the gateway.
func (w *world) get(path string) (code int, body []byte) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.gateway.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.Bytes()
}

// TestAWorkflowStopsLaunching lets the chart launch more runners than the workflow asks for.
func TestAWorkflowStopsLaunching(t *testing.T) {
	t.Parallel()
	inWorld(t, options{job: job.Config{PickUpTimeout: time.Hour, LaunchesMax: 10}}, func(w *world) {
		w.workflowJob(10, "queued", "")
		path, end := w.ended(w.startWorkflow("job-relaunch.asl.json", "run-1", pickedUp))
		want := "Launched Queued" + strings.Repeat(" LaunchesLeft? Relaunch Relaunched Queued", 3) + " LaunchesLeft? NobodyAnswered"
		if path != want || end != "FAILED Job.NobodyAnswered" {
			t.Errorf("want %s and FAILED Job.NobodyAnswered, got %s and %s", want, path, end)
		}
		if launched := w.effects.distinct("launch"); launched != 4 {
			t.Errorf("want the first runner and three more, got %d", launched)
		}
	})
}

// TestAWorkflowAlsoLimitsTheTimeInProgress lets the chart allow a job more time than the workflow does.
func TestAWorkflowAlsoLimitsTheTimeInProgress(t *testing.T) {
	t.Parallel()
	inWorld(t, options{job: job.Config{TimeLimit: 24 * time.Hour}}, func(w *world) {
		w.workflowJob(10, "queued", "")
		execution := w.startWorkflow("job-relaunch.asl.json", "run-1", pickedUp)
		time.Sleep(time.Minute)
		w.workflowJob(10, "in_progress", "")
		began := time.Now()
		path, end := w.ended(execution)
		if want := "Launched Queued PickedUp? InProgress Overdue"; path != want || end != "FAILED Job.Overdue" {
			t.Errorf("want %s and FAILED Job.Overdue, got %s and %s", want, path, end)
		}
		described, err := w.workflows().DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
		if err != nil {
			t.Fatal(err)
		}
		if took := described.StopDate.Sub(began); took < 21_600*time.Second || took > 21_601*time.Second {
			t.Errorf("want the wait over after 21,600 s, got %v", took)
		}
	})
}

// TestTwoRelaunchingWorkflowsLaunchOneRunner starts two workflows that find at the same time that no runner has picked
// up the job. Together they launch one more runner.
func TestTwoRelaunchingWorkflowsLaunchOneRunner(t *testing.T) {
	t.Parallel()
	inWorld(t, options{job: job.Config{PickUpTimeout: time.Hour}}, func(w *world) {
		w.workflowJob(10, "queued", "")
		executions := []string{w.startWorkflow("job-relaunch.asl.json", "run-1", pickedUp), w.startWorkflow("job-relaunch.asl.json", "run-2", pickedUp)}
		time.Sleep(301 * time.Second)
		if launched := w.effects.distinct("launch"); launched != 2 {
			t.Errorf("want one more runner after 300 s, got %d in total", launched)
		}
		w.workflowJob(10, "in_progress", "")
		w.workflowJob(10, "completed", "success")
		for _, execution := range executions {
			if path, end := w.ended(execution); !strings.HasSuffix(path, " Queued PickedUp? InProgress Outcome Succeeded") && !strings.HasSuffix(path, " Queued PickedUp? Outcome Succeeded") {
				t.Errorf("want both workflows to succeed, got %s and %s", path, end)
			}
		}
	})
}

// TestARelaunchSurvivesAFaultAtEveryCall plays the life of a job whose first runner never picks it up. It repeats the
// job with each kind of fault at each AWS call of consumer and forwarder.
func TestARelaunchSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	config := job.Config{PickUpTimeout: time.Hour}
	play := func(w *world) string {
		w.workflowJob(10, "queued", "")
		execution := w.startWorkflow("job-relaunch.asl.json", "run-1", pickedUp)
		time.Sleep(6 * time.Minute)
		w.workflowJob(10, "in_progress", "")
		time.Sleep(5 * time.Minute)
		w.workflowJob(10, "completed", "success")
		path, _ := w.ended(execution)
		time.Sleep(2 * time.Hour)
		r := w.record(pickedUp)
		return fmt.Sprint(path, " ", r.State, len(r.Tokens), owing(r), r.Error, " ", w.effects.distinct("launch"), " ", w.deadLetters())
	}
	const want = "Launched Queued LaunchesLeft? Relaunch Relaunched Queued PickedUp? InProgress Outcome Succeeded [success] 0 0 <nil> 2 0"
	quiet := &faults{}
	inWorld(t, options{faults: quiet, job: config}, func(w *world) {
		if got := play(w); got != want {
			t.Errorf("without faults: want %s, got %s", want, got)
		}
	})
	calls := len(quiet.calls)
	if calls < 20 {
		t.Fatalf("only %d calls to AWS: %v", calls, quiet.calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				inWorld(t, options{faults: hit, job: config}, func(w *world) {
					if got := play(w); got != want {
						t.Errorf("call %d, %s: want %s, got %s", at, hit.hit(), want, got)
					}
				})
			}
		})
	}
}
