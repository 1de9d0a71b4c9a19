package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/logging"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
	"github.com/settle-run/settle/runtime/host/internal/telemetry"
	"github.com/settle-run/settle/runtime/lanes"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// Process contains everything that a function needs to build its machines and its handler.
type Process struct {
	// Env reads the variables of machines and services.
	Env      *Env
	Settings Settings
	// AWS is the SDK configuration for machines and services. No call has been made with it yet. A call is limited only
	// by its context, not by a timeout per attempt, because a service may make slow calls.
	AWS aws.Config
	// Logger writes JSON lines to standard error, which Lambda collects.
	Logger *slog.Logger
	// Telemetry may be nil.
	Telemetry *telemetry.Telemetry
	attempts  aws.HTTPClient // of RuntimeAWS; nil before its first call
	logs      io.Writer      // receives the lines of the recorder
}

// Function describes a function for Main.
type Function struct {
	// Requires names the required variables. All others have defaults.
	Requires []string
	// Machines builds the machines that the function hosts and reads their variables. Nil if the function hosts none.
	Machines func(*Process) ([]durable.Machine, error)
	// Handler builds the handler, in any form that lambda.Start accepts.
	Handler func(*Process, *durable.Machines) (any, error)
}

// Main runs a function. It reads the settings, builds the handler and starts it. If that fails, it logs the error and
// exits with code 1, which Lambda reports as a failed start.
func Main(function Function) {
	if percent, limit, ok := gcSettings(os.LookupEnv); ok {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
	if count, ok := processors(os.LookupEnv); ok && count < runtime.NumCPU() {
		runtime.GOMAXPROCS(count)
	}
	handler, logger, err := Start(function, os.LookupEnv, loadAWS, os.Stdout, os.Stderr)
	if err != nil {
		logger.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	// aws-lambda-go logs the errors of invocations. Format them like all other lines.
	slog.SetLogLoggerLevel(slog.LevelError)
	slog.SetDefault(logger)
	lambda.Start(handler)
}

// gcSettings returns the target percentage and the memory limit in bytes for the garbage collector, or false to keep
// the defaults. Lambda bills all memory of the function, used or not. So garbage may grow to four times the live heap,
// until the process uses three quarters of the memory. The variables GOGC and GOMEMLIMIT take precedence ("A Guide to
// the Go Garbage Collector", https://go.dev/doc/gc-guide).
func gcSettings(lookup func(name string) (string, bool)) (percent int, limit int64, ok bool) {
	megabytes, ok := memoryMB(lookup, "GOGC", "GOMEMLIMIT")
	return 400, megabytes << 20 / 4 * 3, ok
}

// processorMB is the memory size at which a function gets the time of one processor (Lambda Developer Guide, "Configure
// Lambda function memory"). A smaller function gets a share in proportion to its memory.
const processorMB = 1769

// processors returns the number of processors whose time the function gets, rounded up, or false to keep the default of
// GOMAXPROCS. Lambda shows two processors to a small function. If Go used both, it would wake the second one for each
// answer from AWS. That takes a fifth of the time of a small batch. The variable GOMAXPROCS takes precedence.
func processors(lookup func(name string) (string, bool)) (count int, ok bool) {
	megabytes, ok := memoryMB(lookup, "GOMAXPROCS")
	return int((megabytes + processorMB - 1) / processorMB), ok
}

// memoryMB returns the memory of the function in MB, or false if it is unknown or one of the variables is set.
func memoryMB(lookup func(name string) (string, bool), variables ...string) (int64, bool) {
	for _, name := range variables {
		if _, isSet := lookup(name); isSet {
			return 0, false
		}
	}
	text, _ := lookup("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
	megabytes, err := strconv.ParseInt(text, 10, 32)
	return megabytes, err == nil && megabytes > 0
}

// Start builds the handler of a function from the variables that `lookup` finds and the configuration that `load`
// returns. It writes metrics to `metrics` and all other output to `logs`.
func Start(function Function, lookup func(name string) (string, bool), load LoadAWS, metrics, logs io.Writer) (lambda.Handler, *slog.Logger, error) {
	env := &Env{lookup: lookup, required: function.Requires}
	p := &Process{Env: env, Settings: readSettings(env), AWS: env.awsConfig(load), logs: logs}
	lines := durable.LogPanics(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: p.Settings.LogLevel}), p.Settings.LogPayloads)
	if p.Settings.TracesEndpoint != nil {
		lines = telemetry.LogHandler(lines)
	}
	p.Logger = slog.New(telemetry.FaultHandler(lines))
	p.Telemetry = telemetry.New(telemetry.Config{
		Service: p.Settings.Service, Logger: p.Logger, Payloads: p.Settings.LogPayloads, Metrics: metrics, Now: time.Now,
		TracesEndpoint: p.Settings.TracesEndpoint, TracesHeaders: p.Settings.TracesHeaders, TracesClient: http.DefaultClient,
		Resource: []otlp.Attribute{
			{Key: "cloud.provider", Value: "aws"}, {Key: "cloud.region", Value: p.AWS.Region}, {Key: "faas.name", Value: env.Text("AWS_LAMBDA_FUNCTION_NAME", "")},
		},
	})
	p.Telemetry.AWS(&p.AWS)
	machines, err := function.machines(p)
	if err = cmp.Or(env.err(), err); err != nil {
		return nil, p.Logger, err
	}
	handler, err := function.handler(p, machines)
	if err = cmp.Or(env.err(), err); err != nil { // The handler may read variables too.
		return nil, p.Logger, err
	}
	return p.Telemetry.Handler(lambda.NewHandler(handler)), p.Logger, nil
}

// recovered converts a panic to an error. Charts, services and handlers may panic on invalid variables, which the Env
// reports separately. Defer it.
func recovered(building string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("building the %s: panic: %v", building, r)
	}
}

// handler calls f.Handler. It converts a panic to an error.
func (f Function) handler(p *Process, hosted *durable.Machines) (handler any, err error) {
	defer recovered("handler", &err)
	return f.Handler(p, hosted)
}

// machines calls f.Machines, if it is set. It converts a panic to an error.
func (f Function) machines(p *Process) (hosted *durable.Machines, err error) {
	if f.Machines == nil {
		return nil, nil
	}
	defer recovered("machines", &err)
	machines, err := f.Machines(p)
	if err != nil {
		return nil, fmt.Errorf("building the machines: %w", err)
	}
	return durable.NewMachines(machines...)
}

// LoadAWS loads the configuration of the SDK's clients.
type LoadAWS func(ctx context.Context) (aws.Config, error)

// loadAWS is the LoadAWS of Main. It reads the settings that every AWS SDK reads (AWS SDKs and Tools Reference Guide,
// "Settings reference"). The SDK does not log, because its lines would not be JSON.
func loadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
}

// awsConfig returns the configuration of the SDK's clients. It reports problems to the Env.
func (r *Env) awsConfig(load LoadAWS) aws.Config {
	ctx := context.Background()
	loaded, err := load(ctx)
	if err != nil {
		r.Problem(fmt.Errorf("AWS settings: expected values that the SDK accepts, got an error: %w", err))
		return loaded
	}
	if loaded.Region == "" {
		r.Wrong("AWS_REGION", "the function's Region, which Lambda sets", "nothing: set it")
	}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil {
		r.Wrong("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "the credentials of the function's role, which Lambda sets", "nothing: set them")
	}
	return loaded
}

// Queue returns the FIFO queue, with its lanes.
func (p *Process) Queue() *sqsqueue.Queue { return p.queue(sqs.NewFromConfig(p.RuntimeAWS())) }

func (p *Process) queue(client *sqs.Client) *sqsqueue.Queue {
	queue := sqsqueue.New(client, p.Settings.QueueURL, p.Settings.DeadLetterQueueURL)
	rules, _ := lanes.ParseRules(p.Settings.LaneRules, slices.Collect(maps.Keys(p.Settings.Lanes))) // readSettings has checked them.
	return queue.WithLanes(p.Settings.Lanes, rules.Lane)
}
