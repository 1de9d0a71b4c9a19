package demo

import (
	"context"
	"log/slog"

	"github.com/settle-run/settle/machines/enrich"
)

// Enricher implements enrich.Provider.
type Enricher struct{ Logger *slog.Logger }

// Submit logs the job and its callback address, and returns the job's ID. The address is a secret: any reader of the
// log can call back.
func (e Enricher) Submit(ctx context.Context, job enrich.Job) (jobID string, err error) {
	id := "demo-job-" + derived(job.IdempotencyKey)
	e.Logger.InfoContext(ctx, "demo: a third party would be called now", "job", id, "subject", job.Subject, "callback", job.CallbackURL, "deadline", job.Deadline)
	return id, nil
}

var _ enrich.Provider = Enricher{}
