// Package shipped makes the machines of this repository for the functions that are deployed from it.
package shipped

import (
	"context"
	"log/slog"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/durable"
)

// Machines returns the machines, on services that write to the log what they would do: no more than that they were called,
// unless payloads are to be logged.
func Machines(p *boot.Process) ([]durable.Machine, error) {
	tuned := settings(p.Env)
	logger := p.Logger
	if !p.Settings.LogPayloads {
		logger = slog.New(bare{logger.Handler()})
	}
	plant := &demo.Plant{Logger: logger}
	return machines.All(machines.Services{
		Enricher: demo.Enricher{Logger: logger},
		Runners:  demo.Runners{Logger: logger},
		Mailer:   demo.Mailer{Logger: logger},
		Accounts: demo.Accounts{Logger: logger},
		Files:    demo.Files{Logger: logger},
		Pipeline: pipeline.Services{Data: plant, Jobs: plant, Alerts: plant},
	}, tuned), nil
}

// ConsumerMachines is Machines for the function that runs them: without the key of signup's codes, whoever sees a snapshot can
// find the code by trying them all.
func ConsumerMachines(p *boot.Process) ([]durable.Machine, error) {
	p.Env.Require(SignupCodeKey)
	return Machines(p)
}

// Callbacks returns the third parties of the machines that call back.
func Callbacks(p *boot.Process) map[string]httpapi.Callback {
	made := callbacks(p.Env)
	if len(made.Key) == 0 {
		return nil
	}
	return map[string]httpapi.Callback{enrich.ProviderName: {Machine: "enrich", Verify: made.Verify, Read: enrich.ReadCallback}}
}

// bare is a handler of log lines that leaves out their attributes.
type bare struct{ slog.Handler }

// Handle writes the message alone.
func (h bare) Handle(ctx context.Context, record slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(record.Time, record.Level, record.Message, record.PC))
}

// WithAttrs leaves them out.
func (h bare) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup leaves it out.
func (h bare) WithGroup(string) slog.Handler { return h }
