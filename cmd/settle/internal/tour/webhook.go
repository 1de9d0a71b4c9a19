package tour

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// workflowJob is the relevant part of a GitHub workflow job in its webhooks:
// https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
type workflowJob struct {
	ID         int64     `json:"id"`
	RunID      int64     `json:"run_id"`
	RunAttempt int64     `json:"run_attempt"`
	Status     string    `json:"status"`
	Conclusion *string   `json:"conclusion"`
	Workflow   string    `json:"workflow_name"`
	Name       string    `json:"name"`
	Labels     []string  `json:"labels"`
	RunnerName *string   `json:"runner_name"`
	CreatedAt  time.Time `json:"created_at"`
}

func newWorkflowJob(runID, jobID int64, name string, at time.Time) workflowJob {
	return workflowJob{
		ID: jobID, RunID: runID, RunAttempt: 1, Workflow: "CI", Name: name, Labels: []string{"self-hosted", "linux"},
		CreatedAt: at.UTC().Truncate(time.Second),
	}
}

// webhook returns the body of the webhook for the action.
func (j workflowJob) webhook(action string) ([]byte, error) {
	j.Status = action
	return json.Marshal(map[string]any{
		"action":       action,
		"workflow_job": j,
		"repository":   map[string]any{"full_name": "octo-org/web", "owner": map[string]any{"login": "octo-org"}},
	})
}

// signature returns the value of X-Hub-Signature-256.
func signature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
