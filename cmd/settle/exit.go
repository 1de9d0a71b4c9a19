package main

import (
	"errors"

	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// The exit codes; main's documentation explains them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4
)

// exitCodes maps errors to exit codes: the only place that does.
var exitCodes = []struct {
	err  error
	code int
}{
	{errUsage, exitUsage},
	{durable.ErrInstanceID, exitUsage},
	{dynamostore.ErrCursor, exitUsage},
	{simulation.ErrName, exitUsage},
	{errNotFound, exitNotFound},
	{durable.ErrUnknownMachine, exitNotFound},
	{errRefused, exitRefused},
	{simulation.ErrRefused, exitRefused},
	{durable.ErrReserved, exitRefused},
	{statechart.ErrNotAnEvent, exitRefused},
	{statechart.ErrUndeclared, exitRefused},
	{statechart.ErrPayload, exitRefused},
}

func exitCode(err error) int {
	for _, known := range exitCodes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return exitFailed
}
