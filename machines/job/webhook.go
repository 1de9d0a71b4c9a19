package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrWebhook is returned by FromWebhook if the payload is not a workflow_job webhook of GitHub.
var ErrWebhook = errors.New("not a workflow_job webhook")

// webhook has the fields of GitHub's payload that FromWebhook uses
// (https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job).
type webhook struct {
	Action string `json:"action"`
	Job    *struct {
		ID          int64     `json:"id"`
		RunID       int64     `json:"run_id"`
		RunAttempt  int64     `json:"run_attempt"`
		Status      string    `json:"status"`
		Conclusion  string    `json:"conclusion"`
		Workflow    string    `json:"workflow_name"`
		Name        string    `json:"name"`
		Labels      []string  `json:"labels"`
		RunnerName  string    `json:"runner_name"`
		HTMLURL     string    `json:"html_url"`
		CreatedAt   time.Time `json:"created_at"`
		StartedAt   time.Time `json:"started_at"`
		CompletedAt time.Time `json:"completed_at"`
	} `json:"workflow_job"`
	Repository struct {
		FullName string `json:"full_name"`
		Owner    struct {
			Login string `json:"login"`
		} `json:"owner"`
	} `json:"repository"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
}

// FromWebhook maps GitHub's unmodified workflow_job webhook to an instance ID and the event to send to this instance.
// The event has no $id, because the payload contains no ID of the webhook. Errors wrap ErrWebhook.
func FromWebhook(payload []byte) (instanceID string, event json.RawMessage, err error) {
	var hook webhook
	if err := json.Unmarshal(payload, &hook); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	if hook.Job == nil {
		return "", nil, fmt.Errorf(`%w: expected an object under the key "workflow_job", got none`, ErrWebhook)
	}
	typ, err := hook.eventType()
	if err != nil {
		return "", nil, err
	}
	job := hook.workflowJob()
	if typ == "completed" {
		err = CompletedJob{job}.Validate()
	} else {
		err = job.Validate()
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	event, err = json.Marshal(struct {
		Type string `json:"type"`
		WorkflowJob
	}{typ, job})
	if err != nil {
		return "", nil, fmt.Errorf("encoding the event %s: %w", typ, err)
	}
	return InstanceID(job.RunID, job.JobID), event, nil
}

// eventType returns the phase of the job: the action in_progress or completed, else the job's status. The statuses
// requested and pending count as waiting. GitHub may send the action in_progress while the status is still queued, and
// the action queued while the status is still waiting.
func (w webhook) eventType() (string, error) {
	if w.Action == "in_progress" || w.Action == "completed" {
		return w.Action, nil
	}
	switch w.Job.Status {
	case "queued", "in_progress", "completed", "waiting":
		return w.Job.Status, nil
	case "requested", "pending":
		return "waiting", nil
	default:
		return "", fmt.Errorf("%w: expected the status queued, in_progress, completed, waiting, requested or pending, got %q", ErrWebhook, w.Job.Status)
	}
}

func (w webhook) workflowJob() WorkflowJob {
	return WorkflowJob{
		RunID: w.Job.RunID, JobID: w.Job.ID, RunAttempt: w.Job.RunAttempt,
		Repository: w.Repository.FullName, Owner: w.Repository.Owner.Login, InstallationID: w.Installation.ID,
		Workflow: w.Job.Workflow, Name: w.Job.Name, Labels: w.Job.Labels, RunnerName: w.Job.RunnerName,
		Conclusion: w.Job.Conclusion, HTMLURL: w.Job.HTMLURL,
		CreatedAt: w.Job.CreatedAt, StartedAt: w.Job.StartedAt, CompletedAt: w.Job.CompletedAt,
	}
}
