package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/simulation"
)

// session is one run of the command line: what it reads from, writes to and reaches out to.
type session struct {
	in          io.Reader
	out, errOut io.Writer
	// style marks what goes to out.
	style console.Style
	// watched says that errOut is a terminal, on which somebody may wait.
	watched bool
	// program is how the user called the command; what dev prints begins with it.
	program string
	// endpoint is the AWS endpoint of --local.
	endpoint string
	// http reaches endpoint. Nil means over the network.
	http aws.HTTPClient
	// now is the clock that the ages of things are told by, in the zone to show times in.
	now func() time.Time
}

// commandLine is the grammar; kong reads it from the tags.
type commandLine struct {
	Dev   devCommand   `cmd:"" help:"Run Settle on this machine: queues, table, machines, gateway."`
	Demo  demoCommand  `cmd:"" help:"Play five machines and their workflows end to end, on this machine, without an AWS account."`
	Send  sendCommand  `cmd:"" help:"Send an event to an instance."`
	Get   getCommand   `cmd:"" help:"Show an instance: where it is, since when, and what it waits for."`
	List  listCommand  `cmd:"" help:"List instances."`
	Check checkCommand `cmd:"" help:"Check before a deployment that this build can carry the stored instances on."`
	Graph graphCommand `cmd:"" help:"Print a machine's chart as a Mermaid diagram or for XState, or list the machines."`

	Simulate simulateCommand `cmd:"" help:"Run a machine config of XState on events from standard input, in virtual time."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

const description = `Settle runs statecharts on Lambda, SQS FIFO and DynamoDB.

Try "settle dev" in one terminal and the commands that it prints in another.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such instance, machine or file, 4 event refused.`

// run runs one command and returns its exit code.
func (s *session) run(ctx context.Context, args []string) int {
	exited := -1 // what kong exits with after printing a help text
	parser, err := kong.New(&commandLine{}, kong.Name("settle"), kong.Description(description),
		kong.Writers(s.out, s.errOut), kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Vars{"local_endpoint": localEndpoint, "aws_port": devAWSPort, "http_port": devHTTPPort, "simulation_epoch": simulation.Epoch.Format(time.RFC3339)},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s))
	if err != nil {
		return s.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return s.fail(fmt.Errorf("%w: %w; settle --help explains", errUsage, err))
	}
	if err := command.Run(); err != nil {
		return s.fail(err)
	}
	return exitDone
}

// fail prints the error as one line and returns its exit code.
func (s *session) fail(err error) int {
	var lines []string
	for line := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		lines = append(lines, strings.TrimSpace(line))
	}
	text := strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ") // What ends with a colon heads a list.
	_, _ = fmt.Fprintf(s.errOut, "settle: %s\n", text)                 // Where else could this failure be told?
	return exitCode(err)
}

// printf writes to the session's output.
func (s *session) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format, args...)
	return err
}

var (
	// errUsage is wrapped by the errors of a command line that is wrong in itself.
	errUsage = errors.New("usage")
	// errNotFound is wrapped when there is no such instance.
	errNotFound = errors.New("not found")
	// errRefused is wrapped when an event is refused that the machine's own errors do not
	// speak of.
	errRefused = errors.New("event refused")
)
