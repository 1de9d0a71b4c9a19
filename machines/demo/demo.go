// Package demo has services for the machines that change nothing in the world: they write to
// the log what they would have done. Put your own in their place before real users come: a
// code of signup is in the log for everyone who may read it.
//
// What they return is derived from the idempotency key, so a repeated call returns the same.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
)

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

// SendVerification logs the mail, and the code of six digits that would be in it.
func (m Mailer) SendVerification(ctx context.Context, verification signup.Verification) (code string, err error) {
	code = Code(verification.IdempotencyKey)
	m.Logger.InfoContext(ctx, "demo: a mail would be sent now", "to", verification.Email, "code", code)
	return code, nil
}

// Code returns the code that Mailer mails under the idempotency key.
func Code(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(sum[:8])%1_000_000)
}

// Accounts implements signup.Accounts.
type Accounts struct{ Logger *slog.Logger }

// Provision logs the account and returns the ID that it would have.
func (a Accounts) Provision(ctx context.Context, account signup.Account) (accountID string, err error) {
	id := "demo-account-" + derived(account.IdempotencyKey)
	a.Logger.InfoContext(ctx, "demo: an account would be made now", "account", id, "email", account.Email)
	return id, nil
}

// derived returns a short name for what has the idempotency key.
func derived(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return hex.EncodeToString(sum[:6])
}

var (
	_ job.RunnerLauncher = Runners{}
	_ signup.Mailer      = Mailer{}
	_ signup.Accounts    = Accounts{}
)
