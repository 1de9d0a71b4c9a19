package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/job"
)

// webhook is a payload from GitHub, reduced to the used fields and a sample of the others.
const webhook = `{
	"action": "ACTION",
	"workflow_job": {
		"id": 42, "run_id": 7, "run_attempt": 2, "node_id": "CR_1", "head_sha": "cafe",
		"html_url": "https://github.com/octo-org/web/actions/runs/7/job/42",
		"status": "STATUS", "conclusion": CONCLUSION,
		"created_at": "2026-01-01T00:00:00Z", "started_at": "2026-01-01T00:01:00Z", "completed_at": null,
		"name": "build", "workflow_name": "CI", "steps": [{"name": "checkout", "number": 1}],
		"labels": ["self-hosted", "gpu"], "runner_id": null, "runner_name": null
	},
	"repository": {"id": 1, "full_name": "octo-org/web", "owner": {"login": "octo-org", "id": 2}},
	"organization": {"login": "octo-org"},
	"installation": {"id": 9, "node_id": "MD"},
	"sender": {"login": "ada"}
}`

func webhookOf(action, status, conclusion string) []byte {
	return []byte(strings.NewReplacer("ACTION", action, "STATUS", status, "CONCLUSION", conclusion).Replace(webhook))
}

func TestFromWebhookReturnsEventsThatTheChartDecodes(t *testing.T) {
	t.Parallel()
	id, body, err := job.FromWebhook(webhookOf("queued", "queued", "null"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "run-7-job-42"; id != want || job.InstanceID(7, 42) != want {
		t.Errorf("expected the instance %s, got %s", want, id)
	}
	event, err := job.New(newLauncher(t), job.Config{}).Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	want := job.WorkflowJob{
		RunID: 7, JobID: 42, RunAttempt: 2, Repository: "octo-org/web", Owner: "octo-org", InstallationID: 9,
		Workflow: "CI", Name: "build", Labels: []string{"self-hosted", "gpu"},
		HTMLURL:   "https://github.com/octo-org/web/actions/runs/7/job/42",
		CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), StartedAt: time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, event.Payload); event.Type != "queued" || event.ID != "" || diff != "" {
		t.Errorf("expected queued without $id, got %q with %q; payload (-want +got):\n%s", event.Type, event.ID, diff)
	}
}

func TestFromWebhookReturnsTheJobsPhase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ action, status, conclusion, want string }{
		{"queued", "queued", "null", "queued"},
		{"queued", "waiting", "null", "waiting"},
		{"waiting", "waiting", "null", "waiting"},
		{"queued", "requested", "null", "waiting"},
		{"queued", "pending", "null", "waiting"},
		{"in_progress", "in_progress", "null", "in_progress"},
		{"in_progress", "queued", "null", "in_progress"},
		{"completed", "completed", `"success"`, "completed"},
		{"an unknown action", "queued", "null", "queued"},
	} {
		_, body, err := job.FromWebhook(webhookOf(c.action, c.status, c.conclusion))
		var event struct{ Type, Conclusion string }
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil || event.Type != c.want {
			t.Errorf("action %s, status %s: expected %s, got %q, %v", c.action, c.status, c.want, event.Type, err)
		}
	}
}

func TestFromWebhookErrorsNameTheExpectedInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ payload, want string }{
		{``, `not a workflow_job webhook: unexpected end of JSON input`},
		{`{"zen": "Keep it logically awesome."}`, `not a workflow_job webhook: expected an object under the key "workflow_job", got none`},
		{string(webhookOf("queued", "paused", "null")), `not a workflow_job webhook: expected the status queued, in_progress, completed, waiting, requested or pending, got "paused"`},
		{string(webhookOf("completed", "completed", "null")), `not a workflow_job webhook: expected a conclusion such as "success", got none`},
		{`{"workflow_job": {"status": "queued", "run_id": 7}}`, `not a workflow_job webhook: expected a positive job_id, got 0`},
		{`{"workflow_job": {"status": "completed", "id": 42, "conclusion": "success"}}`, `not a workflow_job webhook: expected a positive run_id, got 0`},
	} {
		id, event, err := job.FromWebhook([]byte(c.payload))
		if !errors.Is(err, job.ErrWebhook) || err.Error() != c.want || id != "" || event != nil {
			t.Errorf("expected the error %q, got %v with %q, %s", c.want, err, id, event)
		}
	}
}
