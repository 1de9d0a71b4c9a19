// Package machines lists the machines that the runtime hosts. Add yours to All.
package machines

import (
	"cmp"
	"time"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
)

// Services are the services that the machines call. All are required.
type Services struct {
	// Enricher is the third party of enrich.
	Enricher enrich.Provider
	// Runners launches the runners of job.
	Runners job.RunnerLauncher
	// Mailer mails the codes of signup.
	Mailer signup.Mailer
	// Accounts creates the accounts of signup.
	Accounts signup.Accounts
	// Pipeline evaluates data, runs jobs and publishes alerts for the machine "pipeline".
	Pipeline pipeline.Services
	// Files processes the files of the machine "upload".
	Files upload.Processor
}

// Settings tunes the machines. The zero value is useful.
type Settings struct {
	// EnrichCallbacks creates the callback addresses of enrich. Without it, instances of enrich end in not_accepted.
	EnrichCallbacks enrich.Callbacks
	Enrich          enrich.Config
	// EnrichRetention is how long a finished instance of enrich is kept. Defaults to enrich.Retention.
	EnrichRetention time.Duration

	Job job.Config
	// JobRetention is how long a finished job is kept. Defaults to job.Retention.
	JobRetention time.Duration

	Signup signup.Config
	// SignupRetention is how long a finished sign-up is kept. Defaults to signup.Retention.
	SignupRetention time.Duration

	Pipeline pipeline.Config
	// PipelineRetention is how long a finished run is kept. Defaults to pipeline.Retention.
	PipelineRetention time.Duration

	Upload upload.Config
	// UploadRetention is how long a month is kept after its window closes. Defaults to upload.Retention.
	UploadRetention time.Duration
}

// All returns the machines. If a chart or a setting is not valid, All panics, so the error appears before the first
// event.
func All(services Services, settings Settings) []durable.Machine {
	return []durable.Machine{
		durable.Host(enrich.New(services.Enricher, settings.EnrichCallbacks, settings.Enrich), durable.MachineConfig{
			StartedBy: enrich.StartedBy,
			Retention: cmp.Or(settings.EnrichRetention, enrich.Retention),
		}),
		durable.Host(job.New(services.Runners, settings.Job), durable.MachineConfig{
			StartedBy: job.StartedBy,
			Retention: cmp.Or(settings.JobRetention, job.Retention),
		}),
		durable.Host(signup.New(services.Mailer, services.Accounts, settings.Signup), durable.MachineConfig{
			StartedBy: signup.StartedBy,
			Retention: cmp.Or(settings.SignupRetention, signup.Retention),
		}),
		durable.Host(pipeline.New(services.Pipeline, settings.Pipeline), durable.MachineConfig{
			StartedBy: pipeline.StartedBy,
			Retention: cmp.Or(settings.PipelineRetention, pipeline.Retention),
		}),
		durable.Host(upload.New(services.Files, settings.Upload), durable.MachineConfig{
			StartedBy: upload.StartedBy,
			Retention: cmp.Or(settings.UploadRetention, upload.Retention),
		}),
	}
}
