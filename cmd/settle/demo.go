package main

import (
	"context"

	"github.com/settle-run/settle/cmd/settle/internal/tour"
)

type demoCommand struct{}

// Help says what is shown.
func (demoCommand) Help() string {
	return `A workflow job that runs, one that no runner picks up, each with a Step Functions workflow that waits
for it, and a sign-up with a wrong code and a second mail. Exits with 0 only if all three end where they should, within 15 seconds.`
}

// Run plays the tour on free ports.
func (demoCommand) Run(ctx context.Context, s *session) error {
	return tour.Play(ctx, s.out, hostedMachines, tour.Config{AWSAddr: loopback(0), HTTPAddr: loopback(0), Style: s.style})
}
