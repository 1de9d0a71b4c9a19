// Command settle is the command line of Settle. It runs Settle on this machine (dev, clock, demo). It sends events to
// instances and shows them, here or on AWS (send, get, list, history, watch, graph, export). It repairs stuck instances
// (dlq, resume, rearm), shows what a new build would do to instances (check, migrate), and simulates charts (simulate).
// docs/cli.md describes each command.
//
// # Where the instances are
//
// Commands that call AWS use the account, Region and credentials that the AWS CLI would use, from the AWS_* variables,
// profiles and roles. With --local, they use made-up credentials and the stack of settle dev, at AWS_ENDPOINT_URL if
// that is set.
//
// The commands and their exit codes are documented in package command, which also builds this command for your own
// machines.
package main

import (
	"context"
	"io"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/tour"
)

func main() { command.Main(settle()) }

// settle returns the command with this module's machines.
func settle() command.Config {
	return settleWith(&hosted{demo: watched})
}

// settleWith returns the command with the machines of `hosted`.
func settleWith(hosted *hosted) command.Config {
	return command.Config{
		Machines: hosted.machines,
		Dev:      command.Dev{Flags: &hosted.flags, Prepare: hosted.prepare, ConsumerEnv: hosted.consumerEnv, Example: example, Demo: hosted.demonstration},
		Commands: []command.Command{{
			Name: "demo", Summary: "Run five sample machines and their workflows end to end, on this machine, without an AWS account.",
			Help: demoHelp, Run: playTour("127.0.0.1:0"),
		}},
	}
}

const demoHelp = `Runs these scenes: a workflow job that a runner picks up, and one that no runner picks up; a sign-up with a wrong code; a
third party that calls back; a data pipeline on time, late and cancelled, and with three more outcomes; two files, one of
them depending on the other. In all scenes but the sign-up, Step Functions workflows wait for the instances.

The demo takes 20 seconds. The exit code is 0 only if all instances and executions end as expected within ten minutes.

  settle demo`

// playTour returns a command that plays the tour with its servers on addr. If addr is empty, the servers use no port.
func playTour(addr string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, out io.Writer) error {
		return tour.Play(ctx, out, hostedMachines, tour.Config{Addr: addr, Style: styleOf(out)})
	}
}

// styleOf returns the style for a writer, which may be a terminal.
func styleOf(out io.Writer) console.Style {
	return console.NewStyle(console.HasColor(out), console.Columns(out))
}
