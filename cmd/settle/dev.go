package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
)

// The ports of settle dev: S-E-T-T on a telephone's keys, and the next one.
const (
	devHTTPPort = "7388"
	devAWSPort  = "7389"
)

// functionTimeoutLeast leaves services three seconds beside the loop's Config.DeadlineMargin.
const functionTimeoutLeast = 5 * time.Second

type devCommand struct {
	AWSPort  uint16 `name:"aws-port" default:"${aws_port}" help:"The port of the AWS endpoint, on 127.0.0.1; 0 takes a free one (${default})."`
	HTTPPort uint16 `name:"http-port" default:"${http_port}" help:"The port of the gateway, on 127.0.0.1; 0 takes a free one (${default})."`

	Data string `placeholder:"DIR" help:"Keep queues, tables, schedules and executions in this folder and go on with what it holds. Without it nothing is kept."`

	Consumer        string        `placeholder:"PATH" help:"Run this executable behind the queue as Lambda would, instead of the consumer in this process: .bin/functions/*/consumer/bootstrap of make functions, or one of your own."`
	ConsumerEnv     []string      `name:"consumer-env" sep:"none" placeholder:"KEY=VALUE" help:"Set an environment variable of --consumer, over those that settle dev sets. May be repeated."`
	Concurrency     int           `default:"5" help:"How many batches the consumer handles at once; with --consumer, as many processes (${default})."`
	FunctionTimeout time.Duration `default:"1m" help:"How long an invocation may take, 5s to 15m. A message whose consumer was killed comes again after six times as long (${default})."`

	GitHubSecret string `name:"github-secret" env:"SETTLE_GITHUB_WEBHOOK_SECRET" placeholder:"SECRET" help:"What GitHub's webhooks are signed with. One is made up if none is given."`

	EnrichCallbackKey string `name:"enrich-callback-key" env:"SETTLE_ENRICH_CALLBACK_KEY" placeholder:"KEY" help:"What the addresses are made with that enrich's third party calls back, at least 16 bytes. One is made up if none is given; with --data, give one, or addresses end with the process."`

	JobPickUpTimeout time.Duration `default:"5m" help:"How long a runner may take to pick a job up before the next one is launched (${default})."`
	JobLaunchesMax   int           `default:"3" help:"How many runners are launched for one job (${default})."`
	JobTimeLimit     time.Duration `default:"6h" help:"How long a job may be in progress (${default})."`
	SignupDeadline   time.Duration `default:"24h" help:"How long a user may take to send the code (${default})."`
}

// Help explains what a flag's line has no room for.
func (*devCommand) Help() string {
	return `What runs here is what runs on AWS: the same handlers get the same events over the same wire
protocols. Only the services are pretended: what they would do is printed.

The AWS endpoint serves SQS, DynamoDB, EventBridge Scheduler and Step Functions, and refuses by name what it
does not do; https://github.com/settle-run/settle/blob/main/docs/awslocal.md lists both. Point any SDK at it with
AWS_ENDPOINT_URL, and the aws CLI with --endpoint-url.

With --data everything is on disk before it is answered: after Ctrl-C, a crash or a kill, settle dev on the
same folder goes on with all instances, schedules and executions. Without it nothing survives Ctrl-C.

With --consumer the executable that you deploy runs here, in --concurrency processes: killed at its time-out,
started anew when it has ended. It gets what its template sets on AWS, and the settings of the flags below, as
environment variables, nothing of this shell's, and a key of its own for the codes of signup; with --data, give one:
--consumer-env SETTLE_SIGNUP_CODE_KEY=... What it logs is printed as it is.`
}

func (c *devCommand) settings() (machines.Settings, error) {
	for _, flag := range []struct {
		name string
		bad  bool
	}{
		{"--concurrency", c.Concurrency <= 0},
		{"--job-pick-up-timeout", c.JobPickUpTimeout <= 0},
		{"--job-launches-max", c.JobLaunchesMax <= 0},
		{"--job-time-limit", c.JobTimeLimit <= 0},
		{"--signup-deadline", c.SignupDeadline <= 0},
	} {
		if flag.bad {
			return machines.Settings{}, fmt.Errorf("%w: %s: expected more than zero", errUsage, flag.name)
		}
	}
	if c.FunctionTimeout < functionTimeoutLeast || c.FunctionTimeout > 15*time.Minute {
		return machines.Settings{}, fmt.Errorf("%w: --function-timeout: expected 5s to 15m, got %v; two seconds of it are kept for storing, so services need more", errUsage, c.FunctionTimeout)
	}
	for _, variable := range c.ConsumerEnv {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return machines.Settings{}, fmt.Errorf("%w: --consumer-env: expected KEY=VALUE, got %q", errUsage, variable)
		}
	}
	if len(c.ConsumerEnv) > 0 && c.Consumer == "" {
		return machines.Settings{}, fmt.Errorf("%w: --consumer-env: expected --consumer with it, got none", errUsage)
	}
	return machines.Settings{
		Job:    job.Config{PickUpTimeout: c.JobPickUpTimeout, LaunchesMax: c.JobLaunchesMax, TimeLimit: c.JobTimeLimit},
		Signup: signup.Config{Deadline: c.SignupDeadline},
	}, nil
}

// enrichCallbacks makes the addresses that lead to the gateway. If it is to take a free port, their Base is known
// once it listens.
func (c *devCommand) enrichCallbacks() (enrich.Callbacks, error) {
	callbacks := enrich.Callbacks{Base: "http://" + loopback(c.HTTPPort), Key: []byte(c.EnrichCallbackKey)}
	if c.EnrichCallbackKey == "" {
		callbacks.Key = []byte(rand.Text())
	}
	if err := callbacks.Validate(); err != nil {
		return enrich.Callbacks{}, fmt.Errorf("%w: --enrich-callback-key: %w", errUsage, err)
	}
	return callbacks, nil
}

// callbacksOf lets the gateway take what the addresses were made for.
func callbacksOf(callbacks enrich.Callbacks) map[string]httpapi.Callback {
	return map[string]httpapi.Callback{enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback}}
}

// Run serves the stack until ctx ends or a part of it fails.
func (c *devCommand) Run(ctx context.Context, s *session) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	secret := c.GitHubSecret
	if secret == "" {
		secret = rand.Text()
	}
	settings.EnrichCallbacks, err = c.enrichCallbacks()
	if err != nil {
		return err
	}
	logger := slog.New(console.NewHandler(s.out, s.style, ""))
	running, err := stack.Start(ctx, func(gatewayURL string) []durable.Machine {
		settings.EnrichCallbacks.Base = gatewayURL
		return hostedMachines(logger, settings)
	}, stack.Config{
		AWSAddr: loopback(c.AWSPort), HTTPAddr: loopback(c.HTTPPort), Data: c.Data, GitHubSecret: secret, Callbacks: callbacksOf(settings.EnrichCallbacks), Logger: logger,
		Consumer: c.Consumer, ConsumerEnv: c.consumerEnv(settings.EnrichCallbacks.Key), ConsumerLogs: s.out, Concurrency: c.Concurrency, FunctionTimeout: c.FunctionTimeout,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop what listens there, or choose other ports with --aws-port and --http-port (0 takes a free one)", err)
	}
	if err != nil {
		return err
	}
	if err := c.printWelcome(s, running, secret); err != nil {
		return errors.Join(err, running.Close())
	}
	err = running.Wait(ctx)
	if err == nil {
		err = s.printf("\nStopping.\n")
	}
	return errors.Join(err, running.Close())
}

// consumerEnv makes the settings of the machines into the variables that the consumer's executable reads, and
// adds those that were given.
func (c *devCommand) consumerEnv(callbackKey []byte) func(gatewayURL string) []string {
	signupKey := rand.Text()
	return func(gatewayURL string) []string {
		return append([]string{
			"SETTLE_JOB_PICK_UP_TIMEOUT=" + c.JobPickUpTimeout.String(),
			"SETTLE_JOB_LAUNCHES_MAX=" + strconv.Itoa(c.JobLaunchesMax),
			"SETTLE_JOB_TIME_LIMIT=" + c.JobTimeLimit.String(),
			"SETTLE_SIGNUP_DEADLINE=" + c.SignupDeadline.String(),
			"SETTLE_SIGNUP_CODE_KEY=" + signupKey,
			"SETTLE_ENRICH_CALLBACK_BASE=" + gatewayURL,
			"SETTLE_ENRICH_CALLBACK_KEY=" + string(callbackKey),
		}, c.ConsumerEnv...)
	}
}

func loopback(port uint16) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// awsVariables are what the aws CLI asks for before it talks to anybody.
const awsVariables = "AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1"

// printWelcome says what is served, and prints commands that work when pasted.
func (c *devCommand) printWelcome(s *session, running *stack.Stack, secret string) error {
	settle := s.programToPaste()
	if running.AWSURL() != localEndpoint {
		settle = "AWS_ENDPOINT_URL=" + running.AWSURL() + " " + settle
	}
	if c.GitHubSecret != "" {
		secret = "that was given"
	}
	bold := s.style.Bold
	return s.printf(`%s

  AWS      %s    SQS, DynamoDB, EventBridge Scheduler and Step Functions,
             for any SDK and the aws CLI; any credentials
             queue %s, parked events in %s, timers in %s; table %s
  gateway  %s    POST /instances/{machine}/{id}/events, GET /instances/{machine}/{id}
             POST /webhooks/github, signed with the secret %s
  machines %s

%s

  %s send --local signup/42 SIGN_UP email=ada@example.com name=Ada
  %s get --local signup/42

Then send VERIFY with code=, the code that is printed below instead of being mailed.

%s

  %s \
    aws sqs send-message --endpoint-url %s \
    --queue-url %s \
    --message-group-id signup/43 --message-deduplication-id "try-$(date +%%s)" \
    --message-body '{"type": "SIGN_UP", "email": "bob@example.com", "name": "Bob"}'
  %s \
    aws dynamodb get-item --endpoint-url %s \
    --table-name %s --key '{"instance": {"S": "signup/43"}}'

%s

  curl -i %s/instances/signup/44/events \
    -H 'Content-Type: application/json' \
    -d '{"type": "SIGN_UP", "email": "eve@example.com", "name": "Eve"}'
  curl %s/instances/signup/44

Each transition is printed below as it is stored. Ctrl-C stops; %s.

`,
		bold("Settle runs on this machine."),
		running.AWSURL(), stack.Queue, stack.DeadLetterQueue, stack.DelayQueue, stack.Table,
		running.HTTPURL(), secret, strings.Join(running.MachineIDs(), ", "),
		bold("Try it in another terminal:"), settle, settle,
		bold("The stock aws CLI works too:"), awsVariables, running.AWSURL(), running.QueueURL(), awsVariables, running.AWSURL(), stack.Table,
		bold("So does HTTP:"), running.HTTPURL(), running.HTTPURL(), c.kept())
}

// kept says what remains after the command.
func (c *devCommand) kept() string {
	if c.Data == "" {
		return "nothing is kept"
	}
	return "what is in " + c.Data + " goes on when it is given with --data again"
}

// programToPaste returns how another terminal calls this program: by its name if the shell
// finds it, else by its path.
func (s *session) programToPaste() string {
	if filepath.Base(s.program) == s.program {
		return s.program
	}
	path, err := filepath.Abs(s.program)
	if err != nil {
		path = s.program
	}
	if strings.ContainsAny(path, " '\"$&;()<>|*?[]`\\") {
		path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
