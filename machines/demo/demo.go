// Package demo has services without side effects for the machines. They only log each call. Replace them before real
// users arrive: anyone with access to the log can read signup's codes.
//
// The results are derived from the idempotency key, so a repeated call returns the same result.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/signup"
)

// Services returns a demo service for each service of the machines.
func Services(logger *slog.Logger) machines.Services {
	plant := &Plant{Logger: logger}
	return machines.Services{
		Enricher: Enricher{Logger: logger},
		Runners:  Runners{Logger: logger},
		Mailer:   Mailer{Logger: logger},
		Accounts: Accounts{Logger: logger},
		Files:    Files{Logger: logger},
		Pipeline: pipeline.Services{Data: plant, Jobs: plant, Alerts: plant},
	}
}

// Runners implements job.RunnerLauncher.
type Runners struct{ Logger *slog.Logger }

// Launch logs the request and returns a runner that does not exist.
func (r Runners) Launch(ctx context.Context, request job.Request) (job.Runner, error) {
	id := "demo-runner-" + derived(request.IdempotencyKey)
	r.Logger.InfoContext(ctx, "demo: a runner would be launched now", "runner", id,
		"repository", request.Job.Repository, "job_id", request.Job.JobID, "labels", request.Job.Labels, "launch", request.Launch)
	return job.Runner{ID: id}, nil
}

// Mailer implements signup.Mailer.
type Mailer struct{ Logger *slog.Logger }

// SendVerification logs the mail and its six-digit code.
func (m Mailer) SendVerification(ctx context.Context, verification signup.Verification) (code string, err error) {
	code = Code(verification.IdempotencyKey)
	m.Logger.InfoContext(ctx, "demo: a mail would be sent now", "to", verification.Email, "code", code)
	return code, nil
}

// Code returns the code that Mailer mails for the idempotency key.
func Code(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(sum[:8])%1_000_000)
}

// Accounts implements signup.Accounts.
type Accounts struct{ Logger *slog.Logger }

// Provision logs the account and returns its ID.
func (a Accounts) Provision(ctx context.Context, account signup.Account) (accountID string, err error) {
	id := "demo-account-" + derived(account.IdempotencyKey)
	a.Logger.InfoContext(ctx, "demo: an account would be created now", "account", id, "email", account.Email)
	return id, nil
}

// derived returns a short name that is derived from the idempotency key.
func derived(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return hex.EncodeToString(sum[:6])
}

var (
	_ job.RunnerLauncher = Runners{}
	_ signup.Mailer      = Mailer{}
	_ signup.Accounts    = Accounts{}
)
