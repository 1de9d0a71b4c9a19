package command

import (
	"errors"

	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// The exit codes; the package's documentation explains them.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitRefused  = 4
	ExitTimeUp   = 5
	ExitIDReused = 6
	// ExitInterrupted is that of a process that SIGINT has ended, as shells know it.
	ExitInterrupted = 130
	// ExitUnread is that of a process that SIGPIPE has ended, as shells know it.
	ExitUnread = 141
)

// exitCodes maps errors to exit codes: the only place that does.
var exitCodes = []struct {
	err  error
	code int
}{
	{errInterrupted, ExitInterrupted},
	{errUnread, ExitUnread},
	{errUsage, ExitUsage},
	{durable.ErrInstanceID, ExitUsage},
	{dynamostore.ErrCursor, ExitUsage},
	{simulation.ErrName, ExitUsage},
	{errNotFound, ExitNotFound},
	{durable.ErrUnknownMachine, ExitNotFound},
	{errTimeUp, ExitTimeUp},
	{dynamostore.ErrIDReused, ExitIDReused},
	{errRefused, ExitRefused},
	{simulation.ErrRefused, ExitRefused},
	{durable.ErrReserved, ExitRefused},
	{statechart.ErrNotAnEvent, ExitRefused},
	{statechart.ErrUndeclared, ExitRefused},
	{statechart.ErrPayload, ExitRefused},
}

func exitCode(err error) int {
	for _, known := range exitCodes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return ExitFailed
}
