package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/alecthomas/kong"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// session is one run of a command line.
type session struct {
	Process
	config Config
	// raw is Out without progress handling. Use it if the writer's type matters, for example to detect a terminal.
	raw    io.Writer
	screen *screen
	// read counts the reads of tables.
	read reads
	// machineNow is the clock of this machine. With --local, Now is the clock of settle dev.
	machineNow func() time.Time
	// style marks text for Out.
	style console.Style
	// grammar is the grammar of all commands. `given` has the stackFlags given on the command line. See hint.
	grammar *kong.Node
	given   map[string]string
}

// commandLine is the grammar. kong reads it from the tags.
type commandLine struct {
	Dev   devCommand   `cmd:"" help:"Run Settle on this machine: queues, table, machines, gateway."`
	Clock clockCommand `cmd:"" help:"Show the time of settle dev, or advance it."`

	Send    sendCommand    `cmd:"" help:"Send an event to an instance, and optionally wait for the result."`
	Get     getCommand     `cmd:"" help:"Show an instance: its state, timers, services and pending tasks."`
	List    listCommand    `cmd:"" help:"List instances."`
	History historyCommand `cmd:"" help:"Show the last transitions of an instance."`
	Watch   watchCommand   `cmd:"" help:"Show the transitions of an instance as they happen."`
	Console consoleCommand `cmd:"" help:"Show machines and instances in a browser, on this machine."`
	Graph   graphCommand   `cmd:"" help:"Print a machine's chart, or an instance's with its state marked, or list the machines."`

	DLQ       dlqCommand       `cmd:"" name:"dlq" help:"List parked events, send them again, or drop them."`
	Stop      operationCommand `cmd:"" help:"Stop an instance. Its exit actions run."`
	Terminate operationCommand `cmd:"" help:"End an instance without running its code."`
	Move      moveCommand      `cmd:"" help:"Move an instance to another state, or change its context."`
	Lane      laneCommand      `cmd:"" help:"Move an instance to another lane."`
	Keep      operationCommand `cmd:"" help:"Keep an instance beyond its retention."`
	Unkeep    operationCommand `cmd:"" help:"End the effect of keep."`
	Forget    forgetCommand    `cmd:"" help:"Erase the data of an ended instance."`

	Bulk bulkCommand `cmd:"" help:"Send to, stop, move, keep or forget many instances."`

	Resume  resumeCommand  `cmd:"" help:"Resume a stuck instance."`
	Rearm   rearmCommand   `cmd:"" help:"Rearm instances that were restored from a backup."`
	Check   checkCommand   `cmd:"" help:"Check before a deployment that this build can run the stored instances."`
	Migrate migrateCommand `cmd:"" help:"Show how this build's migrations would change the stored instances."`
	Record  recordCommand  `cmd:"" help:"Make a recording of real instances from the consumer's log, for replay."`
	Replay  replayCommand  `cmd:"" help:"Check before a deployment that this build behaves like the recording."`
	Export  exportCommand  `cmd:"" help:"Write the snapshots of instances as JSON lines."`
	Backup  backupCommand  `cmd:"" help:"Write all items of the table as JSON lines, for import."`
	Import  importCommand  `cmd:"" help:"Write the items of a backup into a table."`

	Bench      benchCommand      `cmd:"" help:"Measure the latency, throughput and cost of events on a stack."`
	Simulate   simulateCommand   `cmd:"" help:"Simulate the chart of a machine or of an XState file on events from standard input, in virtual time."`
	Completion completionCommand `cmd:"" help:"Print the completion script for bash, zsh or fish."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

const description = `Settle runs statecharts on Lambda, SQS FIFO and DynamoDB.

Try "settle dev" in one terminal and the commands that it prints in another. Output is text and tables on a terminal, and
JSON elsewhere. Use -o text or -o json to choose.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such instance, machine, file or message, 4 event refused, 5 timed out,
6 event ID used for another event, 130 interrupted.`

// parser returns the kong parser, and a pointer to the exit code that kong sets after a help text.
func (s *session) parser(ctx context.Context) (parser *kong.Kong, exited *int, err error) {
	exited = new(int)
	*exited = -1
	line := &commandLine{}
	if s.config.Dev.Flags != nil {
		line.Dev.Plugins = kong.Plugins{s.config.Dev.Flags}
	}
	options := []kong.Option{
		kong.Name(s.name()), kong.Description(description),
		kong.Writers(s.raw, s.Err), kong.Exit(func(code int) { *exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}), kong.Help(s.help),
		kong.Vars{"local_endpoint": localEndpoint, "aws_port": devAWSPort, "http_port": devHTTPPort, "console_port": consolePort, "simulation_epoch": simulation.Epoch.Format(time.RFC3339)},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
	}
	for _, further := range s.config.Commands {
		options = append(options, kong.DynamicCommand(further.Name, further.Summary, "", &furtherCommand{Command: further}))
	}
	if parser, err = kong.New(line, options...); err != nil {
		return nil, nil, err
	}
	describe(parser.Model.Node)
	return parser, exited, nil
}

// help prints the help. The help texts call the program "settle". In the examples, help replaces this with the
// program's own name.
func (s *session) help(options kong.HelpOptions, ctx *kong.Context) error {
	var text bytes.Buffer
	out := ctx.Stdout
	ctx.Stdout = &text
	err := kong.DefaultHelpPrinter(options, ctx)
	ctx.Stdout = out
	if err != nil {
		return err
	}
	var commands []string
	for _, command := range ctx.Model.Children {
		commands = append(commands, regexp.QuoteMeta(command.Name))
	}
	example := regexp.MustCompile(`(^|[^\w-])settle (` + strings.Join(commands, "|") + `)\b`)
	files := strings.NewReplacer("completions/settle", "completions/"+s.name(), "/_settle", "/_"+s.name())
	_, err = io.WriteString(out, files.Replace(example.ReplaceAllString(text.String(), "${1}"+s.name()+" $2")))
	return err
}

// furtherCommand is one of Config.Commands.
type furtherCommand struct {
	Command `kong:"-"`
}

// Help implements kong.HelpProvider.
func (c *furtherCommand) Help() string { return c.Command.Help }

// Run runs the additional command.
func (c *furtherCommand) Run(ctx context.Context, s *session) error {
	return c.Command.Run(ctx, s.raw)
}

// run runs one command and returns its exit code.
func (s *session) run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == completeWord {
		if err := s.complete(ctx, args[1:]); err != nil {
			return s.fail(err)
		}
		return ExitDone
	}
	parser, exited, err := s.parser(ctx)
	if err != nil {
		return s.fail(err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "--version":
		args = []string{"version"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	command, err := parser.Parse(args)
	if *exited >= 0 {
		return *exited
	}
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed) && failed.Op == "write": // Writing the help text failed.
		return s.fail(failed)
	case err != nil:
		return s.fail(fmt.Errorf("%w: %s; see %s --help", errUsage, usageText(err, args), s.calledOf(err)))
	}
	s.remember(command)
	if s.given["local"] != "" {
		s.followClock(ctx)
	}
	err = stopped(ctx, command.Run())
	if errors.Is(err, errUnread) { // There is no reader to report to.
		return exitCode(err)
	}
	if err != nil {
		if ctx.Err() != nil {
			s.breakLine()
		}
		return s.fail(err)
	}
	return ExitDone
}

// name returns the name by which the program was called. A program with the machines of another module may have a name
// of its own.
func (s *session) name() string {
	name := strings.TrimSuffix(filepath.Base(s.Program), ".exe")
	if !nameable.MatchString(name) {
		return "settle"
	}
	return name
}

// nameable matches names that need no quotes in a shell script.
var nameable = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)

// breakLine starts a new line after ^C on a terminal.
func (s *session) breakLine() {
	if s.StderrTTY {
		s.writeErr("\n")
	}
}

// kongDuration matches kong's message about a duration that time.ParseDuration refuses.
var kongDuration = regexp.MustCompile(`expected duration but got ("[^"]*"): .*`)

// usageText rewrites kong's error about the command line.
func usageText(err error, args []string) string {
	text := strings.ReplaceAll(err.Error(), ` value but got "EOL" (<EOL>)`, ", got no value") // EOL is kong's name for the end of the command
	text = kongDuration.ReplaceAllString(text, "expected a duration such as 72h, got $1")
	for _, arg := range args { // kong takes a negative duration for a flag.
		if _, err := time.ParseDuration(arg); err == nil && arg[0] == '-' && strings.HasPrefix(text, "unknown flag "+arg[:2]) {
			return fmt.Sprintf("expected a duration such as 72h, got %q", arg)
		}
	}
	if strings.HasPrefix(text, `expected "`) {
		text = "an argument is missing: " + text
	}
	return text
}

// calledOf returns the command that was parsed before the error.
func (s *session) calledOf(err error) string {
	var failed *kong.ParseError
	if errors.As(err, &failed) && failed.Context != nil {
		if node := failed.Context.Selected(); node != nil {
			return node.FullPath()
		}
	}
	return s.name()
}

// fail prints the error as one line and returns its exit code.
func (s *session) fail(err error) int {
	s.note("%s: %s", s.name(), oneLine(err))
	return exitCode(err)
}

// oneLine returns the brief text of an error in one line.
func oneLine(err error) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(brief(err), func(r rune) bool { return r == '\n' || r == '\r' }) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ") // A line that ends with a colon introduces a list.
}

// writeErr writes to standard error. It escapes control characters, because parts of the text may come from a producer.
func (s *session) writeErr(format string, args ...any) {
	_, _ = io.WriteString(s.Err, console.Escape(fmt.Sprintf(format, args...))) // There is no other place to report a failure.
}

func (s *session) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(s.Out, format, args...)
	return err
}

// machines returns the machines for lookups. Their services never run. If a chart has mistakes, Config.Machines panics
// with a list of the mistakes, and machines returns this list as the error.
func (s *session) machines() (machines *durable.Machines, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the machines cannot be built: %v", r)
		}
	}()
	return durable.NewMachines(s.config.Machines(Environment{Logger: slog.New(slog.DiscardHandler), Now: s.Now})...)
}

// versions returns the hosted versions of a machine.
func (s *session) versions(id string) []durable.Machine {
	all := s.config.Machines(Environment{Logger: slog.New(slog.DiscardHandler), Now: s.Now})
	return slices.DeleteFunc(slices.Clone(all), func(m durable.Machine) bool { return m.ID() != id }) // Config.Machines may keep the slice.
}

// statesOf returns the paths of the states of a machine's versions.
func statesOf(versions []durable.Machine) []string {
	var paths []string
	for _, machine := range versions {
		for _, state := range machine.Describe().States[1:] { // The first state is the chart itself.
			if !slices.Contains(paths, state.Path) {
				paths = append(paths, state.Path)
			}
		}
	}
	return paths
}

// tags returns the sorted tags of the states in all hosted versions of a machine. `known` is false if no machine has
// the ID.
func (s *session) tags(id string) (tags []string, known bool) {
	for _, machine := range s.versions(id) {
		tags, known = append(tags, machine.Describe().Tags...), true
	}
	slices.Sort(tags)
	return slices.Compact(tags), known
}

// writeXState writes the chart of a machine as an XState config.
func (s *session) writeXState(machine durable.Machine) ([]byte, error) {
	chart := machine.Outline()
	if chart == nil {
		return nil, fmt.Errorf("machine %q has no XState config: expected a chart of runtime/statechart, got another kind of machine; %s prints its diagram", machine.ID(), s.hint("graph", machine.ID()))
	}
	return xstatejson.WriteOutline(chart)
}

var (
	// errUsage is wrapped by errors about a wrong command line.
	errUsage = errors.New("usage")
	// errNotFound is wrapped when an instance or message does not exist.
	errNotFound = errors.New("not found")
	// errRefused is wrapped when the command line itself refuses an event. The machines have their own errors.
	errRefused = errors.New("event refused")
	// errUnread is returned when standard output is closed.
	errUnread = errors.New("standard output is closed")
	// errTimeUp is wrapped when --wait times out.
	errTimeUp = errors.New("timed out")
)

// stackFlags are the flags that choose a stack and its parts.
var stackFlags = []string{"local", "table", "queue", "dead-letter-queue"}

// remember stores the grammar, and the stackFlags given on the command line. It omits flags from environment variables,
// because those also apply to the next command.
func (s *session) remember(line *kong.Context) {
	s.grammar, s.given = line.Model.Node, map[string]string{}
	for _, element := range line.Path {
		if flag := element.Flag; flag != nil && slices.Contains(stackFlags, flag.Name) {
			switch {
			case !flag.IsBool():
				s.given[flag.Name] = "--" + flag.Name + " " + shellescape.Quote(flag.Target.String())
			case flag.Target.Bool():
				s.given[flag.Name] = "--" + flag.Name
			}
		}
	}
}

// hint returns a command line to paste, such as "settle dlq list --local --instance signup/42". It repeats the given
// stackFlags that the suggested command accepts, and then appends args.
func (s *session) hint(command string, args ...string) string {
	words := append([]string{s.name()}, strings.Fields(command)...)
	for _, name := range stackFlags {
		flag, given := s.given[name]
		if !given || slices.Contains(args, "--"+name) || !takes(s.grammar, words[1:], name) {
			continue
		}
		words = append(words, flag)
	}
	for _, arg := range args {
		words = append(words, shellescape.Quote(arg))
	}
	return strings.Join(words, " ")
}

// takes reports whether the command named by `words` has the flag.
func takes(node *kong.Node, words []string, flag string) bool {
	for _, word := range words {
		k := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		if k < 0 {
			break
		}
		node = node.Children[k]
	}
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == flag })
}
