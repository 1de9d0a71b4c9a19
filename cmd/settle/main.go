// Command settle is Settle's command line. It runs the whole of Settle on this machine (dev,
// demo), sends events to instances and looks at them, here or on AWS (send, get, list), checks that
// a new build can carry them on (check), and shows charts and tries them out (graph, simulate).
//
// # Where the instances are
//
// send, get, list and check use the AWS account, Region and credentials that the AWS CLI would use:
// the AWS_* variables, profiles, roles. With --local they use the stack that settle dev
// serves, at AWS_ENDPOINT_URL if that is set, with made-up credentials.
//
// # Exit codes
//
//	0  done; for dev and simulate: stopped as asked
//	1  failed: AWS, a port, the demo, a step of a simulation, an instance that a check finds to break
//	2  the command line itself is wrong
//	3  no such instance, machine or file
//	4  the event was refused: the machine would never take it
//
// Errors are one line on standard error.
package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; a second one ends the process as if nobody listened.
	context.AfterFunc(ctx, stop)
	s := &session{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		style:    console.StyleFor(os.Stdout, os.Getenv("NO_COLOR")),
		watched:  console.IsTerminal(os.Stderr),
		program:  os.Args[0],
		endpoint: cmp.Or(os.Getenv("AWS_ENDPOINT_URL"), localEndpoint),
		now:      time.Now,
	}
	os.Exit(s.run(ctx, os.Args[1:]))
}
