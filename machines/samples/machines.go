// Package samples builds this repository's machines for the deployed functions.
package samples

import (
	"context"
	"log/slog"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/host"
)

// Machines returns the machines, with services that log the calls they would make. They log the details of a call only
// if the function logs payloads.
func Machines(p *host.Process) ([]durable.Machine, error) {
	tuned := settings(p.Env)
	logger := p.Logger
	if !p.Settings.LogPayloads {
		logger = slog.New(bare{logger.Handler()})
	}
	return machines.All(demo.Services(logger), tuned), nil
}

// ConsumerMachines returns the machines for the consumer and requires the key of signup's codes. Without the key,
// anyone with access to a snapshot could find the code by trying all codes.
func ConsumerMachines(p *host.Process) ([]durable.Machine, error) {
	p.Env.Require(SignupCodeKey)
	return Machines(p)
}

// ThirdParties returns the third parties that may send requests to the gateway. It includes only third parties that
// have a secret.
func ThirdParties(p *host.Process) host.ThirdParties {
	var parties host.ThirdParties
	if secrets := p.Env.Secrets(GitHubWebhookSecret, GitHubWebhookSecretPrevious, webhook.SecretBytesMin); len(secrets.Current) > 0 {
		parties.Webhooks = map[string]gateway.Webhook{webhook.Name: webhook.GitHub(secrets)}
	}
	if made := callbacks(p.Env); len(made.Key) > 0 {
		parties.Callbacks = map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: made.Verify, Read: enrich.ReadCallback}}
	}
	return parties
}

// bare is a log handler that drops attributes.
type bare struct{ slog.Handler }

// Handle logs only the message.
func (h bare) Handle(ctx context.Context, record slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(record.Time, record.Level, record.Message, record.PC))
}

// WithAttrs drops the attributes.
func (h bare) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup drops the group.
func (h bare) WithGroup(string) slog.Handler { return h }
