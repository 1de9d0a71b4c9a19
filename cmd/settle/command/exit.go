package command

import (
	"errors"

	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// The exit codes. The package documentation explains them.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitRefused  = 4
	ExitTimeUp   = 5
	ExitIDReused = 6
	// ExitInterrupted is the exit code that shells report for SIGINT.
	ExitInterrupted = 130
	// ExitUnread is the exit code that shells report for SIGPIPE.
	ExitUnread = 141
)

// exitCodes maps errors to exit codes. The first match counts.
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
