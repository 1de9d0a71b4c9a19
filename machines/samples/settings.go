package samples

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/host"
)

// The environment variables of the machines. If a variable is not set, the machine's own default applies.
const (
	// JobPickUpTimeout, JobLaunchesMax and JobTimeLimit set the fields PickUpTimeout, LaunchesMax and TimeLimit of
	// job.Config.
	JobPickUpTimeout = "SETTLE_JOB_PICK_UP_TIMEOUT"
	JobLaunchesMax   = "SETTLE_JOB_LAUNCHES_MAX"
	JobTimeLimit     = "SETTLE_JOB_TIME_LIMIT"
	// JobLabels sets the field Labels of job.Config. Commas separate the labels.
	JobLabels = "SETTLE_JOB_LABELS"
	// JobRetention is how long a finished job is stored.
	JobRetention = "SETTLE_JOB_RETENTION"

	// EnrichCallbackBase is the public address of the gateway. EnrichCallbackKey is the secret for the callback
	// addresses of enrich's third party. Consumer and gateway need the same values. Without them, enrich calls no third
	// party.
	EnrichCallbackBase = "SETTLE_ENRICH_CALLBACK_BASE"
	EnrichCallbackKey  = "SETTLE_ENRICH_CALLBACK_KEY"
	// EnrichCallbackKeyPrevious is the former key during a rotation.
	EnrichCallbackKeyPrevious = "SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS"
	// EnrichWait and EnrichGrace set the fields Wait and Grace of enrich.Config.
	EnrichWait  = "SETTLE_ENRICH_WAIT"
	EnrichGrace = "SETTLE_ENRICH_GRACE"
	// EnrichRetention is how long a finished instance of enrich is stored.
	EnrichRetention = "SETTLE_ENRICH_RETENTION"

	// GitHubWebhookSecret is the secret that GitHub signs its webhooks with.
	GitHubWebhookSecret = "SETTLE_GITHUB_WEBHOOK_SECRET"
	// GitHubWebhookSecretPrevious is the former secret during a rotation.
	GitHubWebhookSecretPrevious = "SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS"

	// SignupCodeKey and SignupDeadline set the fields CodeKey and Deadline of signup.Config. The consumer requires the
	// key. Without it, anyone with access to a snapshot could find the code by trying all codes.
	SignupCodeKey  = "SETTLE_SIGNUP_CODE_KEY"
	SignupDeadline = "SETTLE_SIGNUP_DEADLINE"
	// SignupRetention is how long a finished sign-up is stored.
	SignupRetention = "SETTLE_SIGNUP_RETENTION"

	// PipelineRetention is how long a finished pipeline run is stored. The event that starts a run sets its intervals
	// and windows.
	PipelineRetention = "SETTLE_PIPELINE_RETENTION"

	// UploadWindow and UploadProcessTimeout set the fields Window and ProcessTimeout of upload.Config.
	UploadWindow         = "SETTLE_UPLOAD_WINDOW"
	UploadProcessTimeout = "SETTLE_UPLOAD_PROCESS_TIMEOUT"
	// UploadRetention is how long a month of uploads is stored after its window has closed.
	UploadRetention = "SETTLE_UPLOAD_RETENTION"
)

// settings reads the settings of the machines.
func settings(env *host.Env) (s machines.Settings) {
	s.Job.Labels = jobLabels(env)
	s.Job.PickUpTimeout = env.Duration(JobPickUpTimeout)
	s.Job.LaunchesMax = env.Count(JobLaunchesMax)
	s.Job.TimeLimit = env.Duration(JobTimeLimit)
	s.JobRetention = env.Duration(JobRetention)
	s.EnrichCallbacks = callbacks(env)
	s.Enrich.Wait = env.Duration(EnrichWait)
	s.Enrich.Grace = env.Duration(EnrichGrace)
	s.EnrichRetention = env.Duration(EnrichRetention)
	s.Signup.CodeKey = env.Secret(SignupCodeKey, signup.CodeKeyBytesMin)
	s.Signup.Deadline = env.Duration(SignupDeadline)
	s.SignupRetention = env.Duration(SignupRetention)
	s.PipelineRetention = env.Duration(PipelineRetention)
	s.Upload.Window = env.Duration(UploadWindow)
	s.Upload.ProcessTimeout = env.Duration(UploadProcessTimeout)
	s.UploadRetention = env.Duration(UploadRetention)
	return s
}

func jobLabels(env *host.Env) []string {
	value := env.Text(JobLabels, "labels")
	if value == "" {
		return nil
	}
	labels := strings.Split(value, ",")
	for i, label := range labels {
		labels[i] = strings.TrimSpace(label)
	}
	if slices.Contains(labels, "") {
		env.Wrong(JobLabels, "labels separated by commas, such as self-hosted,gpu", strconv.Quote(value))
	}
	return labels
}

func callbacks(env *host.Env) enrich.Callbacks {
	keys := env.Secrets(EnrichCallbackKey, EnrichCallbackKeyPrevious, enrich.CallbackKeyBytesMin)
	made := enrich.Callbacks{Base: env.Text(EnrichCallbackBase, "the address of the gateway"), Key: keys.Current, PreviousKey: keys.Previous}
	if made.Base != "" || len(made.Key) > 0 {
		if err := made.Validate(); err != nil {
			env.Problem(fmt.Errorf("environment variables %s and %s: %w", EnrichCallbackBase, EnrichCallbackKey, err))
		}
	}
	return made
}
