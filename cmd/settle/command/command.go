// Package command builds the settle command line for the machines of a module. To build it for your own machines, write
// this main:
//
//	func main() {
//		command.Main(command.Config{Machines: func(command.Environment) []durable.Machine {
//			return []durable.Machine{durable.Host(light.New(), durable.MachineConfig{})}
//		}})
//	}
//
// The command has all commands of docs/cli.md except demo.
//
// # Exit codes
//
//	0  done; for dev, simulate and watch: stopped by the user
//	1  failed: AWS, a port, the demo, a step of a simulation; for check: an instance cannot run on this build; for
//	   replay: a run differs; for send --wait: the event was parked, or the instance ended in another way
//	2  wrong command line
//	3  no such instance, machine, file or parked message
//	4  the event was refused as invalid
//	5  --wait timed out
//	6  the ID of the event was used for another event; nothing was sent
//	130  stopped by Ctrl-C or SIGTERM before it was done
//	141  standard output was closed
//
// Errors are one line on standard error, folded at the width of a terminal.
package command

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
)

// Config describes a settle command. Machines is required.
type Config struct {
	// Machines returns the machines that dev hosts and other commands use. It is called after the command line has been
	// parsed. Machines with the same ID are versions of one machine.
	Machines func(Environment) []durable.Machine
	// Dev extends the command dev.
	Dev Dev
	// Commands are additional commands.
	Commands []Command
}

// Environment is passed to Config.Machines.
type Environment struct {
	// Logger receives the log of services. dev prints it. Other commands run no services and discard it.
	Logger *slog.Logger
	// GatewayURL is the address of dev's gateway, without a trailing slash. It is empty in other commands.
	GatewayURL string
	// Now is the clock of dev, which --clock virtual can advance. Services that read the time should call it.
	Now func() time.Time
}

// Dev extends the command dev. The zero value adds nothing.
type Dev struct {
	// Flags points to a struct with additional flags of dev, tagged as in github.com/alecthomas/kong.
	Flags any
	// Prepare is called after the flags are parsed and before anything starts. An error from it counts as wrong usage.
	// The function `generate` returns a secret of 26 letters and digits for a name. It returns the same secret for the
	// same name, and with --data also in later runs.
	Prepare func(generate func(name string) (string, error)) (Gateway, error)
	// ConsumerEnv returns environment variables for --consumer, as KEY=value. gatewayURL is the gateway's address.
	ConsumerEnv func(gatewayURL string) []string
	// Example is the event that dev suggests sending. Defaults to an event that starts an instance of one of the machines.
	// dev generates the payload from its type, and prints placeholders if the machine rejects the generated values.
	Example Example
	// Demo returns the demonstration that dev plays on its stack, or nil for none. It is called after Prepare. The
	// demonstration writes to out. Only the command of this module has one.
	Demo func(out io.Writer) Demo
}

// Demo is a demonstration on the stack of dev.
type Demo interface {
	// Log returns the handler that prints the log of the stack.
	Log() slog.Handler
	// Committed prints a commit of the consumer.
	Committed(ctx context.Context, committed durable.Committed)
	// Loop sends events to the stack until ctx ends.
	Loop(ctx context.Context, running *stack.Stack)
	// Page is the path that --open shows, relative to the address of the console.
	Page() string
}

// Gateway configures dev's gateway. With the zero value, it accepts only events.
type Gateway struct {
	// Webhooks are the third parties that send signed requests, by name.
	Webhooks map[string]gateway.Webhook
	// Callbacks are the third parties that call back, by name.
	Callbacks map[string]gateway.Callback
	// Note is a line that dev prints about the webhooks and callbacks.
	Note string
}

// Example is an event that starts an instance.
type Example struct {
	Machine, Event string
	// Payload is the event's payload, as pairs of key and string.
	Payload [][2]string
	// Next is a sentence that says what to do after the event.
	Next string
}

// Command is an additional command.
type Command struct {
	Name string
	// Summary is the command's line in the list of commands. Help is the text of --help below the summary.
	Summary, Help string
	Run           func(ctx context.Context, out io.Writer) error
}

// Process is the environment of a command. The zero value has no input and no output.
type Process struct {
	In       io.Reader
	Out, Err io.Writer
	// StdinTTY, StdoutTTY and StderrTTY report whether In, Out and Err are terminals. On a terminal, Out gets tables
	// instead of JSON, and Err shows progress.
	StdinTTY, StdoutTTY, StderrTTY bool
	// Color reports whether Out understands escape sequences. Plain reports that Err does not understand them, so progress
	// is shown as separate lines.
	Color, Plain bool
	// StdoutClosed reports whether the reader of Out has closed it, so that a long-running command can end. If nil, a
	// command learns this only when a write fails.
	StdoutClosed func() bool
	// Columns is the width of the terminal. If it is 0 (unknown), nothing is folded.
	Columns int
	// Program is the path by which the user called the command. dev prints commands that begin with it. Usage,
	// errors, hints and completion scripts use its last element.
	Program string
	// Endpoint is the AWS endpoint of --local. Defaults to the endpoint of dev.
	Endpoint string
	// HTTP is the client for Endpoint. Nil means the network.
	HTTP aws.HTTPClient
	// User is the name of the local user. The histories of dev's instances record this name for the user's changes.
	User string
	// Open opens a file or an address in the browser. Nil means the desktop's own command.
	Open func(target string) error
	// Now is the clock for ages and deadlines. Its zone is used to print times. Defaults to time.Now.
	Now func() time.Time
}

// Main runs the command line of the process and exits with its exit code. The first SIGINT or SIGTERM asks the command
// to stop. A second one ends the process at once.
func Main(config Config) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, config, Process{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		StdinTTY: console.IsTerminal(os.Stdin), StdoutTTY: console.IsTerminal(os.Stdout), StderrTTY: console.IsTerminal(os.Stderr),
		Color: console.HasColor(os.Stdout), Plain: !console.Obeys(os.Stderr),
		StdoutClosed: func() bool { return console.IsUnread(os.Stdout) }, Columns: cmp.Or(console.Columns(os.Stdout), console.Columns(os.Stderr)),
		Program: os.Args[0], Endpoint: os.Getenv("AWS_ENDPOINT_URL"), User: cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"), "unknown"),
	}, os.Args[1:]))
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, config Config, process Process, args []string) int {
	s := &session{Process: process, config: config}
	s.Endpoint = cmp.Or(s.Endpoint, localEndpoint)
	if s.StdoutClosed == nil {
		s.StdoutClosed = func() bool { return false }
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.machineNow = s.Now
	s.In, s.Out, s.Err = cmp.Or[io.Reader](s.In, strings.NewReader("")), cmp.Or(s.Out, io.Discard), cmp.Or(s.Err, io.Discard)
	columns := 0
	if s.StdoutTTY {
		columns = s.Columns
	}
	s.style, s.raw = console.NewStyle(s.Color, columns), s.Out
	s.screen = &screen{err: s.Err, columns: s.Columns, plain: s.Plain}
	if s.StderrTTY {
		s.Err = progressEraser{s.Err, s.screen}
	}
	if s.StderrTTY && s.StdoutTTY {
		s.Out = progressEraser{s.Out, s.screen}
	}
	return s.run(ctx, args)
}
