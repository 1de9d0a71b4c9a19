package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/alecthomas/kong"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/inspector"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
)

// The ports of settle dev: SETT on a phone keypad, and the next higher number.
const (
	devHTTPPort = "7388"
	devAWSPort  = "7389"
)

// functionTimeoutLeast is the shortest --function-timeout: the default of durable.Config.DeadlineMargin, plus three
// seconds for services.
const functionTimeoutLeast = 5 * time.Second

type devCommand struct {
	AWSPort  uint16 `name:"aws-port" default:"${aws_port}" help:"The port of the AWS endpoint, on 127.0.0.1; 0 picks a free one (${default})."`
	HTTPPort uint16 `name:"http-port" default:"${http_port}" help:"The port of the gateway, on 127.0.0.1; 0 picks a free one (${default})."`

	AllowHosts []string `name:"allow-host" sep:"none" placeholder:"NAME" help:"Accept requests for this host name on both ports, besides localhost and the loopback addresses, such as host.docker.internal for containers. May be repeated."`

	Data string `placeholder:"DIR" help:"Keep queues, tables, schedules, executions and generated secrets in this folder, and continue from its content. Without it, nothing is kept."`

	Consumer        string        `placeholder:"PATH" help:"Run this executable behind the queue as Lambda would, instead of the consumer in this process: .bin/functions/*/consumer/bootstrap from make functions, or one of your own."`
	ConsumerEnv     []string      `name:"consumer-env" sep:"none" placeholder:"KEY=VALUE" help:"Set an environment variable of --consumer. Overrides a variable that settle dev sets. May be repeated."`
	Concurrency     int           `default:"5" help:"How many batches the consumer handles at once; with --consumer, as many processes (${default})."`
	FunctionTimeout time.Duration `default:"45s" help:"How long an invocation may take, 5s to 15m (${default}). If a consumer is killed, its messages are redelivered after 30 seconds, or after up to six times as long if it had just received them."`

	Open bool `help:"Open the console in your browser."`

	Inspect        bool     `help:"Serve the events and snapshots of all instances in the protocol of Stately's inspector for XState, and a page with that inspector."`
	InspectOrigins []string `name:"inspect-origin" sep:"none" placeholder:"ORIGIN" help:"Let pages of this origin, such as http://localhost:5173, connect to --inspect. May be repeated."`

	Record string `placeholder:"FILE" help:"Append a log line for each commit to this file, for settle record."`

	Clock string `enum:"real,virtual" default:"real" help:"real, or virtual: settle clock advance 72h then fires the timers of three days in a moment (${default})."`

	// Plugins is Config.Dev.Flags.
	kong.Plugins
}

// validate checks the flags.
func (c *devCommand) validate() error {
	if c.Concurrency <= 0 {
		return fmt.Errorf("%w: --concurrency: expected more than zero", errUsage)
	}
	if c.FunctionTimeout < functionTimeoutLeast || c.FunctionTimeout > 15*time.Minute {
		return fmt.Errorf("%w: --function-timeout: expected 5s to 15m, got %v; two seconds of it are reserved for storing, so services need more", errUsage, c.FunctionTimeout)
	}
	for _, variable := range c.ConsumerEnv {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return fmt.Errorf("%w: --consumer-env: expected KEY=VALUE, got %q", errUsage, variable)
		}
	}
	for _, host := range c.AllowHosts {
		if host == "" || strings.ContainsAny(host, "/:*") {
			return fmt.Errorf("%w: --allow-host: expected a host name without a port, such as host.docker.internal, got %q", errUsage, host)
		}
	}
	if c.Clock == clockVirtual && c.Consumer != "" {
		return fmt.Errorf("%w: --clock virtual: expected no --consumer with it, because the executable reads the real time; without --consumer, this process runs the same machines", errUsage)
	}
	for _, origin := range c.InspectOrigins {
		if err := inspector.CheckOrigin(origin); err != nil {
			return fmt.Errorf("%w: --inspect-origin: %w", errUsage, err)
		}
	}
	if len(c.InspectOrigins) > 0 && !c.Inspect {
		return fmt.Errorf("%w: --inspect-origin: expected --inspect with it, got none", errUsage)
	}
	if c.Inspect && c.Consumer != "" {
		return fmt.Errorf("%w: --inspect: expected no --consumer with it, because settle dev does not see the commits of the executable; without --consumer, this process runs the same machines", errUsage)
	}
	if c.Record != "" && c.Consumer != "" {
		return fmt.Errorf("%w: --record: expected no --consumer with it, because settle dev does not see the commits of the executable; use --consumer-env SETTLE_RECORD=1", errUsage)
	}
	if len(c.ConsumerEnv) > 0 && c.Consumer == "" {
		return fmt.Errorf("%w: --consumer-env: expected --consumer with it, got none", errUsage)
	}
	return nil
}

// prepare calls Config.Dev.Prepare.
func (c *devCommand) prepare(s *session, made *secrets) (Gateway, error) {
	if s.config.Dev.Prepare == nil {
		return Gateway{}, nil
	}
	gateway, err := s.config.Dev.Prepare(made.get)
	if made.failed != nil {
		return Gateway{}, made.failed
	}
	if err != nil {
		return Gateway{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	return gateway, nil
}

// demo returns the demonstration, or nil for none.
func (c *devCommand) demo(s *session) (Demo, error) {
	if s.config.Dev.Demo == nil {
		return nil, nil
	}
	demo := s.config.Dev.Demo(s.raw)
	if demo == nil {
		return nil, nil
	}
	for _, excluded := range []struct {
		flag  string
		given bool
		why   string
	}{
		{"--clock virtual", c.Clock == clockVirtual, "because the timers of the scenes would stand still between two advances"},
		{"--consumer", c.Consumer != "", "because the scenes read the log of the consumer in this process"},
		{"--data", c.Data != "", "because each start begins with the same instances"},
	} {
		if excluded.given {
			return nil, fmt.Errorf("%w: --demo: expected no %s with it, %s", errUsage, excluded.flag, excluded.why)
		}
	}
	return demo, nil
}

// serve plays the demonstration, unless it is nil, until ctx ends or a part of the stack fails.
func serve(ctx context.Context, running *stack.Stack, demo Demo) error {
	looping, stop := context.WithCancel(ctx)
	var looped sync.WaitGroup
	if demo != nil {
		looped.Go(func() { demo.Loop(looping, running) })
	}
	err := running.Wait(ctx)
	stop()
	looped.Wait()
	return err
}

// open opens the console at the page of the demonstration, if --open is set.
func (c *devCommand) open(s *session, running *stack.Stack, demo Demo) {
	if !c.Open {
		return
	}
	page := ""
	if demo != nil {
		page = demo.Page()
	}
	s.openConsole(running.ConsoleURL() + page)
}

// Run serves the stack until ctx ends or a part of it fails.
func (c *devCommand) Run(ctx context.Context, s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	made := secrets{folder: c.Data}
	gateway, err := c.prepare(s, &made)
	if err != nil {
		return err
	}
	if _, err := s.machines(); err != nil {
		return err
	}
	demo, err := c.demo(s)
	if err != nil {
		return err
	}
	handler := console.NewHandler(s.raw, s.style, "")
	var clock *awslocal.Clock
	if c.Clock == clockVirtual {
		clock = awslocal.NewClock(s.Now)
		s.Now = clock.Now
		handler = console.NewVirtualHandler(s.raw, s.style, "", clock.Now)
	}
	log, committed := slog.Handler(handler), handler.Committed
	if demo != nil {
		log, committed = demo.Log(), demo.Committed
	}
	committed, stopRecording, err := c.recorded(committed)
	if err != nil {
		return err
	}
	defer stopRecording()
	logger := slog.New(durable.LogPanics(log, true))
	// The environment of the consumer's executable has the variables of the machines and the variables of
	// --consumer-env.
	consumerEnv := func(gatewayURL string) []string {
		if s.config.Dev.ConsumerEnv == nil {
			return c.ConsumerEnv
		}
		return append(s.config.Dev.ConsumerEnv(gatewayURL), c.ConsumerEnv...)
	}
	var hosted []durable.Machine
	running, err := stack.Start(ctx, func(gatewayURL string) []durable.Machine {
		hosted = s.config.Machines(Environment{Logger: logger, GatewayURL: gatewayURL, Now: s.Now})
		return hosted
	}, stack.Config{
		Clock: clock, AWSAddr: loopback(c.AWSPort), HTTPAddr: loopback(c.HTTPPort), AllowHosts: c.AllowHosts, Inspect: c.Inspect, InspectOrigins: c.InspectOrigins, Data: c.Data, Webhooks: gateway.Webhooks, Callbacks: gateway.Callbacks, Logger: logger, Committed: committed,
		Consumer: c.Consumer, ConsumerEnv: consumerEnv, ConsumerLogs: s.raw, Operator: s.localUser(), Concurrency: c.Concurrency, FunctionTimeout: c.FunctionTimeout,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop the process that listens there, or choose other ports with --aws-port and --http-port (0 picks a free one)", err)
	}
	if err != nil {
		return err
	}
	if err = made.keep(); err == nil { // This process owns the folder now.
		err = c.printWelcome(s, running, gateway, demo)
	}
	if err != nil {
		return errors.Join(err, running.Close())
	}
	for _, machine := range hosted {
		for _, warning := range machine.Describe().Warnings {
			logger.Warn("the chart has a likely mistake", "machine", machine.ID(), "state", cmp.Or(warning.State, "the chart"), "problem", warning.Problem, "fix", warning.Fix)
		}
	}
	c.open(s, running, demo)
	err = serve(ctx, running, demo)
	if err == nil {
		err = s.printf("\nStopping.\n")
	}
	return errors.Join(err, running.Close())
}

func loopback(port uint16) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// printWelcome prints the addresses of the stack, and commands to paste or the page that shows the demonstration.
func (c *devCommand) printWelcome(s *session, running *stack.Stack, gateway Gateway, demo Demo) error {
	settle := s.programToPaste()
	if running.AWSURL() != localEndpoint {
		settle = "AWS_ENDPOINT_URL=" + running.AWSURL() + " " + settle
	}
	note := ""
	if gateway.Note != "" {
		note = "\n             " + gateway.Note
	}
	clock := ""
	if c.Clock == clockVirtual {
		clock = fmt.Sprintf("  clock    virtual, now at %s; to advance it by three days, run\n             %s clock advance 72h\n", s.clockTime(s.Now()), settle)
	}
	inspect := ""
	if c.Inspect {
		inspect = fmt.Sprintf("  inspect  %s    XState's inspector; a WebSocket for its clients\n", running.InspectorURL())
	}
	head := fmt.Sprintf(`%s

  AWS      %s    SQS, DynamoDB, EventBridge, its Scheduler and Step Functions,
             for any SDK and the aws CLI, with any credentials
             queue %s, parked events in %s, timers in %s; table %s
  gateway  %s    POST /instances/{machine}/{id}/events, GET /instances/{machine}/{id}%s
  console  %s    machines and instances in your browser
%s  machines %s
%s
`,
		s.style.Bold("Settle is running on this machine."),
		running.AWSURL(), stack.Queue, stack.DeadLetterQueue, stack.DelayQueue, stack.Table,
		running.HTTPURL(), note, running.ConsoleURL(), inspect, strings.Join(running.MachineIDs(), ", "), clock)
	if err := s.printf("%s", s.style.Fold(head)); err != nil {
		return err
	}
	if demo != nil {
		if err := s.printf("Watch the demo at %s\n\n", s.style.Bold(running.ConsoleURL()+demo.Page())); err != nil {
			return err
		}
	} else if trial, err := s.trial(); err != nil {
		return err
	} else if err := trial.print(s, running, settle); err != nil {
		return err
	}
	kept := "nothing is kept"
	if c.Data != "" {
		flags := "--data " + c.Data
		if c.Clock == clockVirtual {
			flags += " --clock virtual"
		}
		kept = "to continue later, run " + s.name() + " dev with " + flags + " again"
	}
	return s.printf("%s", s.style.Fold(fmt.Sprintf("Each transition is printed below as it is stored. Ctrl-C stops; %s.\n\n", kept)))
}

// programToPaste returns how to call this program in another terminal: by its name if the shell finds it, else by its
// path.
func (s *session) programToPaste() string {
	if filepath.Base(s.Program) == s.Program {
		return s.Program
	}
	path, err := filepath.Abs(s.Program)
	if err != nil {
		path = s.Program
	}
	return shellescape.Quote(path)
}
