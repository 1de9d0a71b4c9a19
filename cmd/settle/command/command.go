// Package command makes the command settle for the machines of a module: the one of this module, or one of your own,
// whose main is
//
//	func main() {
//		command.Main(command.Config{Machines: func(command.Environment) []durable.Machine {
//			return []durable.Machine{durable.Host(light.New(), durable.MachineConfig{})}
//		}})
//	}
//
// It has all commands that docs/cli.md tells of but demo, and they know these machines.
//
// # Exit codes
//
//	0  done; for dev, simulate and watch: stopped as asked
//	1  failed: AWS, a port, the demo, a step of a simulation, an instance that a check finds to break, an event that was
//	   parked or an instance that is over while send --wait waits for something else
//	2  the command line itself is wrong
//	3  no such instance, machine, file or parked message
//	4  the event was refused: the machine would never take it
//	5  the time of --timeout is up, and what --wait waits for has not come
//	6  the ID of the event was used for another event; nothing was sent
//	130  stopped by Ctrl-C or SIGTERM before it was done
//	141  nobody reads standard output any more
//
// Errors are one line on standard error, which a terminal shows folded at its width.
package command

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/runtime/durable"
)

// Config is what a settle command is made of. Machines is required.
type Config struct {
	// Machines makes the machines: those that dev hosts, and those that the other commands look things up in. It is called
	// once the command line was read. Of machines that share an ID, each is a version.
	Machines func(Environment) []durable.Machine
	// XState writes the charts of machines for graph --format xstate and for simulate, by the machines' IDs:
	// xstatejson.Write of the chart. A durable.Machine hides the type of its contexts, so each stands here once more.
	XState map[string]func() ([]byte, error)
	// Dev is what dev has beyond every other's.
	Dev Dev
	// Commands are further commands.
	Commands []Command
}

// Environment is where machines run.
type Environment struct {
	// Logger takes what services tell. dev prints it; elsewhere no service runs, and it discards.
	Logger *slog.Logger
	// GatewayURL is the address of dev's gateway, without a slash at its end; empty in other commands.
	GatewayURL string
}

// Dev is what dev has beyond every other's. The zero value is nothing.
type Dev struct {
	// Flags points to a struct whose fields are further flags of dev, by the tags of github.com/alecthomas/kong.
	Flags any
	// Prepare is called when the flags were read, before anything starts. Its error is that of a wrong command line. madeUp
	// returns a secret that is made up, of 26 letters and digits: another one for each name, and for the same name the same one,
	// with --data also whenever dev goes on with the folder.
	Prepare func(madeUp func(name string) (string, error)) (Gateway, error)
	// ConsumerEnv returns what --consumer gets as environment variables, as KEY=value, given the gateway's address.
	ConsumerEnv func(gatewayURL string) []string
	// Example is what dev shows people to try. Defaults to an event that begins an instance of one of the machines, with a
	// payload that is made up from its type, if the machine takes such a one.
	Example Example
}

// Gateway is what dev's gateway takes beside events. The zero value is nothing.
type Gateway struct {
	// GitHubSecret is what GitHub's webhooks are signed with, which become events of a machine "job". Empty means that
	// they are refused.
	GitHubSecret string
	// Callbacks are the third parties that call back, by name.
	Callbacks map[string]httpapi.Callback
	// Note is what dev prints of them, a line.
	Note string
}

// Example is an event to try, which begins an instance.
type Example struct {
	Machine, Event string
	// Payload are the keys of the event and their texts.
	Payload [][2]string
	// Next says what to do after it.
	Next string
}

// Command is a further command.
type Command struct {
	Name string
	// Summary is its line in the list of commands, Help what --help says below it.
	Summary, Help string
	Run           func(ctx context.Context, out io.Writer) error
}

// Process is what a command reads from, writes to and reaches out to. The zero value reads and writes nothing.
type Process struct {
	In       io.Reader
	Out, Err io.Writer
	// Asked says that somebody at a terminal answers on In, Terminal that Out is one: then tables are written rather than
	// JSON. Watched says that Err is one, on which somebody may wait.
	Asked, Terminal, Watched bool
	// Color says that Out takes the escapes of a terminal. Plain says that Err does not: progress is told in lines then.
	Color, Plain bool
	// Unread reports whether nobody reads Out any more, so that a command that goes on by itself ends. Nil means that it is not
	// known before something is written.
	Unread func() bool
	// Columns is how wide the terminal is; 0 if that is not known, and nothing is folded.
	Columns int
	// Program is how the user has called the command; what dev prints begins with it. Its last element is what help texts,
	// errors and completion scripts call the command by.
	Program string
	// Endpoint is the AWS endpoint of --local. Defaults to that of dev.
	Endpoint string
	// HTTP reaches Endpoint. Nil means over the network.
	HTTP aws.HTTPClient
	// Now is the clock that the ages of things are told by, in the zone to show times in. Defaults to time.Now.
	Now func() time.Time
}

// Main runs the command line of the process, and ends it with the exit code. The first SIGINT or SIGTERM asks the command
// to stop; a second one ends the process as if nobody listened.
func Main(config Config) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, config, Process{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Asked: console.IsTerminal(os.Stdin), Terminal: console.IsTerminal(os.Stdout), Watched: console.IsTerminal(os.Stderr),
		Color: console.HasColor(os.Stdout), Plain: !console.Obeys(os.Stderr),
		Unread:  func() bool { return console.IsUnread(os.Stdout) },
		Columns: cmp.Or(console.Columns(os.Stdout), console.Columns(os.Stderr)),
		Program: os.Args[0], Endpoint: os.Getenv("AWS_ENDPOINT_URL"),
	}, os.Args[1:]))
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, config Config, process Process, args []string) int {
	s := &session{
		config: config, in: process.In, out: process.Out, errOut: process.Err,
		asked: process.Asked, terminal: process.Terminal, watched: process.Watched, program: process.Program,
		endpoint: cmp.Or(process.Endpoint, localEndpoint), http: process.HTTP, now: process.Now, unread: process.Unread,
	}
	if s.unread == nil {
		s.unread = func() bool { return false }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.in == nil {
		s.in = eof{}
	}
	if s.out == nil {
		s.out = io.Discard
	}
	if s.errOut == nil {
		s.errOut = io.Discard
	}
	columns := 0
	if s.terminal {
		columns = process.Columns
	}
	s.style, s.raw = console.NewStyle(process.Color, columns), s.out
	s.screen = &screen{err: s.errOut, columns: process.Columns, plain: process.Plain}
	if s.watched {
		s.errOut = beside{s.errOut, s.screen}
	}
	if s.watched && s.terminal {
		s.out = beside{s.out, s.screen}
	}
	return s.run(ctx, args)
}

// eof is an input that has nothing.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
