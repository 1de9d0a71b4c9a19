// Package boot starts the Lambda functions: it reads their settings from the environment,
// which nothing else does, and hands them what they are built from.
package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/durable"
)

// Process is what a function is built from when it starts.
type Process struct {
	Settings Settings
	// AWS is the configuration of the SDK's clients. No call has been made with it yet.
	AWS aws.Config
	// Logger writes JSON lines to standard error, where Lambda picks them up.
	Logger *slog.Logger
}

// Main runs a function: it reads the settings, builds the handler, and hands it to Lambda,
// which may be any that lambda.Start takes. The variables named must be set; the others have
// defaults. If anything is wrong, the process logs it and ends with exit code 1, which Lambda
// reports as a failed start.
func Main(newHandler func(Process) (handler any, err error), required ...string) {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	handler, err := start(context.Background(), logger, newHandler, required)
	if err != nil {
		logger.Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler)
}

func start(ctx context.Context, logger *slog.Logger, newHandler func(Process) (any, error), required []string) (any, error) {
	settings, err := readSettings(os.LookupEnv, required)
	if err != nil {
		return nil, err
	}
	awsConfig, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	return newHandler(Process{Settings: settings, AWS: awsConfig, Logger: logger})
}

// Machines returns the machines that the functions host, on services that write to the log
// what they would do. This is the place to put your own.
func (p Process) Machines() (*durable.Machines, error) {
	plant := &demo.Plant{Logger: p.Logger}
	services := machines.Services{
		Enricher: demo.Enricher{Logger: p.Logger},
		Runners:  demo.Runners{Logger: p.Logger},
		Mailer:   demo.Mailer{Logger: p.Logger},
		Accounts: demo.Accounts{Logger: p.Logger},
		Files:    demo.Files{Logger: p.Logger},
		Pipeline: pipeline.Services{Data: plant, Jobs: plant, Alerts: plant},
	}
	return durable.NewMachines(machines.All(services, p.Settings.Machines)...)
}
