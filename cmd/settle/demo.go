package main

import (
	"context"

	"github.com/settle-run/settle/cmd/settle/internal/tour"
)

type demoCommand struct{}

// Help says what is shown.
func (demoCommand) Help() string {
	return `A workflow job that runs, and one that no runner picks up; a sign-up with a wrong code; a third party that
calls back; a data pipeline in time, late and cancelled, and three more of its ends; two files of which one needs the
other. All but the sign-up with the Step Functions workflows that wait for them. Takes 20 seconds; exits with 0 only if
all instances and executions end where they should, within a minute.`
}

// Run plays the tour on free ports.
func (demoCommand) Run(ctx context.Context, s *session) error {
	return tour.Play(ctx, s.out, hostedMachines, tour.Config{AWSAddr: loopback(0), HTTPAddr: loopback(0), Style: s.style})
}
