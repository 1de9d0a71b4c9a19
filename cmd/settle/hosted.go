package main

import (
	"log/slog"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/runtime/durable"
)

// hostedMachines returns the machines with services that write to the log what they would do.
func hostedMachines(logger *slog.Logger, settings machines.Settings) []durable.Machine {
	return machines.All(machines.Services{
		Runners:  demo.Runners{Logger: logger},
		Mailer:   demo.Mailer{Logger: logger},
		Accounts: demo.Accounts{Logger: logger},
	}, settings)
}

// knownMachines returns the machines to look things up in: none of their services ever runs.
func knownMachines() (*durable.Machines, error) {
	return durable.NewMachines(hostedMachines(slog.New(slog.DiscardHandler), machines.Settings{})...)
}
