// Package boot starts the Lambda functions: it reads their settings from the environment,
// which nothing else does, and hands them what they are built from.
package boot

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/functions/internal/otlp"
	"github.com/settle-run/settle/functions/internal/telemetry"
	"github.com/settle-run/settle/runtime/durable"
)

// Process is what a function is built from when it starts.
type Process struct {
	// Env reads the variables of machines and their services.
	Env      *Env
	Settings Settings
	// AWS is the configuration of the SDK's clients of machines and services. No call has been made with it yet. A call ends
	// with its context: no attempt has a time-out of its own, as a service may call what takes long.
	AWS aws.Config
	// Logger writes JSON lines to standard error, where Lambda picks them up.
	Logger *slog.Logger
	// Telemetry may be nil.
	Telemetry *telemetry.Telemetry
}

// Function is what Main runs.
type Function struct {
	// Requires names the variables that must be set; the others have defaults.
	Requires []string
	// Machines makes the machines that the function hosts, and reads their variables. Nil for a function that hosts none.
	Machines func(*Process) ([]durable.Machine, error)
	// Handler makes the handler, any that lambda.Start takes.
	Handler func(*Process, *durable.Machines) (any, error)
}

// Main runs a function: it reads the settings, builds the handler, and hands it to Lambda. If anything is wrong, the process
// logs it and ends with exit code 1, which Lambda reports as a failed start.
func Main(function Function) {
	handler, logger, err := Start(function, os.LookupEnv, os.Stdout, os.Stderr)
	if err != nil {
		logger.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	// What aws-lambda-go logs, the errors of invocations, are lines of the same form.
	slog.SetLogLoggerLevel(slog.LevelError)
	slog.SetDefault(logger)
	lambda.Start(handler)
}

// Start makes the handler of a function from the variables that lookup finds. Metrics are written to metrics, all else to logs.
func Start(function Function, lookup func(name string) (string, bool), metrics, logs io.Writer) (lambda.Handler, *slog.Logger, error) {
	env := &Env{lookup: lookup, required: function.Requires}
	p := &Process{Env: env, Settings: readSettings(env), AWS: env.awsConfig()}
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
	if wrong := env.err(); wrong != nil {
		return nil, p.Logger, wrong
	}
	if err != nil {
		return nil, p.Logger, err
	}
	handler, err := function.handler(p, machines)
	if wrong := env.err(); wrong != nil { // What it is made of reads variables too.
		return nil, p.Logger, wrong
	}
	if err != nil {
		return nil, p.Logger, err
	}
	return p.Telemetry.Handler(lambda.NewHandler(handler)), p.Logger, nil
}

// handler makes the handler. A panic is an error, as for the machines.
func (f Function) handler(p *Process, hosted *durable.Machines) (handler any, err error) {
	defer func() {
		if r := recover(); r != nil {
			handler, err = nil, fmt.Errorf("making the handler: panic: %v", r)
		}
	}()
	return f.Handler(p, hosted)
}

// machines makes the machines. A panic is an error: what charts and services make of variables that are wrong does not matter
// where those are reported.
func (f Function) machines(p *Process) (hosted *durable.Machines, err error) {
	if f.Machines == nil {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			hosted, err = nil, fmt.Errorf("making the machines: panic: %v", r)
		}
	}()
	machines, err := f.Machines(p)
	if err != nil {
		return nil, fmt.Errorf("making the machines: %w", err)
	}
	return durable.NewMachines(machines...)
}
