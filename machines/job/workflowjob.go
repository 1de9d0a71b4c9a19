package job

import (
	"errors"
	"fmt"
	"time"
)

// WorkflowJob is the payload of the events waiting, queued and in_progress: the job according to GitHub's webhook.
// The times are GitHub's.
type WorkflowJob struct {
	RunID int64 `json:"run_id"`
	JobID int64 `json:"job_id"`
	// RunAttempt counts the attempts of the run from 1. A rerun job has a new JobID.
	RunAttempt int64 `json:"run_attempt,omitempty"`
	// Repository is the repository's full name: "octo-org/web".
	Repository string `json:"repository,omitempty"`
	// Owner is the login of the organisation or user that owns the repository.
	Owner string `json:"owner,omitempty"`
	// InstallationID is the ID of the GitHub App's installation; 0 for a webhook of a repository or an organisation.
	InstallationID int64    `json:"installation_id,omitempty"`
	Workflow       string   `json:"workflow,omitempty"`
	Name           string   `json:"name,omitempty"`
	Labels         []string `json:"labels,omitempty"`
	// RunnerName is the name of the runner that GitHub assigned.
	RunnerName string `json:"runner_name,omitempty"`
	// Conclusion is empty until the job is completed.
	Conclusion  string    `json:"conclusion,omitempty"`
	HTMLURL     string    `json:"html_url,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// Validate checks that the payload identifies a job.
func (j WorkflowJob) Validate() error {
	if j.RunID <= 0 {
		return fmt.Errorf("expected a positive run_id, got %d", j.RunID)
	}
	if j.JobID <= 0 {
		return fmt.Errorf("expected a positive job_id, got %d", j.JobID)
	}
	return nil
}

// CompletedJob is the payload of the event completed: a job with its conclusion.
type CompletedJob struct {
	WorkflowJob
}

// Validate checks the job like WorkflowJob.Validate, and that it has a conclusion.
func (j CompletedJob) Validate() error {
	if err := j.WorkflowJob.Validate(); err != nil {
		return err
	}
	if j.Conclusion == "" {
		return errors.New(`expected a conclusion such as "success", got none`)
	}
	return nil
}

// InstanceID returns the ID of the instance that follows a job: "run-123-job-456".
func InstanceID(runID, jobID int64) string {
	return fmt.Sprintf("run-%d-job-%d", runID, jobID)
}
