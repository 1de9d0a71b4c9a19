package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/tour"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
)

// example is the event that settle dev suggests sending.
var example = command.Example{
	Machine: "signup", Event: "SIGN_UP", Payload: [][2]string{{"email", "ada@example.com"}, {"name", "Ada"}},
	Next: "Then send VERIFY with code= and the code. It is printed below instead of being mailed.",
}

// devFlags are the flags that this module's machines add to settle dev.
type devFlags struct {
	GitHubSecret string `name:"github-secret" env:"SETTLE_GITHUB_WEBHOOK_SECRET" placeholder:"SECRET" help:"The secret that signs GitHub's webhooks. Generated if you give none, and kept in the folder of --data."`

	GitHubSecretPrevious string `name:"github-secret-previous" env:"SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS" placeholder:"SECRET" help:"A second secret that is accepted for GitHub's webhooks, while you rotate the secret."`

	EnrichCallbackKey string `name:"enrich-callback-key" env:"SETTLE_ENRICH_CALLBACK_KEY" placeholder:"KEY" help:"The key that signs the callback addresses of enrich's third party, at least 16 bytes. Generated if you give none, and kept in the folder of --data."`

	EnrichCallbackKeyPrevious string `name:"enrich-callback-key-previous" env:"SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS" placeholder:"KEY" help:"The former key of the callback addresses, at least 16 bytes, while you rotate the key. Its addresses are accepted too."`

	JobPickUpTimeout time.Duration `default:"5m" help:"How long a runner may take to pick a job up before the next one is launched (${default})."`
	JobLaunchesMax   int           `default:"3" help:"How many runners are launched for one job (${default})."`
	JobTimeLimit     time.Duration `default:"6h" help:"How long a job may be in progress (${default})."`
	SignupDeadline   time.Duration `default:"24h" help:"How long a user may take to send the code (${default})."`

	Demo bool `help:"Play the scenes of settle demo on this stack, slowly enough to watch them in the console. They repeat with new instances until Ctrl-C. Cannot be used with --data, --clock virtual, --consumer or --job-pick-up-timeout."`
}

// jobPickUpTimeoutDefault is the default of --job-pick-up-timeout.
const jobPickUpTimeoutDefault = 5 * time.Minute

// watched configures the tour that --demo plays. A round takes a minute and a half.
var watched = tour.Config{Pause: 2 * time.Second, PickUpTimeout: 4 * time.Second, UploadWindow: 20 * time.Second, TimeLimit: time.Minute}

// validate checks the flags.
func (f devFlags) validate() error {
	for _, flag := range []struct {
		name string
		bad  bool
	}{
		{"--job-pick-up-timeout", f.JobPickUpTimeout <= 0},
		{"--job-launches-max", f.JobLaunchesMax <= 0},
		{"--job-time-limit", f.JobTimeLimit <= 0},
		{"--signup-deadline", f.SignupDeadline <= 0},
	} {
		if flag.bad {
			return fmt.Errorf("%s: expected more than zero", flag.name)
		}
	}
	if f.Demo && f.JobPickUpTimeout != jobPickUpTimeoutDefault {
		return errors.New("--job-pick-up-timeout: expected no --demo with it, because the scenes need a short timeout of their own")
	}
	return nil
}

// hosted configures this module's machines from the flags.
type hosted struct {
	flags     devFlags
	callbacks enrich.Callbacks
	// codeKey is the key for the hashes of signup's codes. The executable of --consumer gets it.
	codeKey string
	// demo tunes the tour of --demo.
	demo tour.Config
}

// machines returns the machines. The callback addresses of enrich point to the gateway.
func (h *hosted) machines(environment command.Environment) []durable.Machine {
	settings := machines.Settings{
		Job:    job.Config{PickUpTimeout: h.flags.JobPickUpTimeout, LaunchesMax: h.flags.JobLaunchesMax, TimeLimit: h.flags.JobTimeLimit},
		Signup: signup.Config{Deadline: h.flags.SignupDeadline},
	}
	if h.flags.Demo {
		settings.Job.PickUpTimeout, settings.Upload.Window = h.demo.PickUpTimeout, h.demo.UploadWindow
	}
	if environment.GatewayURL != "" {
		h.callbacks.Base = environment.GatewayURL
		settings.EnrichCallbacks = h.callbacks
	}
	return hostedMachines(environment.Logger, settings)
}

// prepare generates the secrets that were not given.
func (h *hosted) prepare(generate func(name string) (string, error)) (command.Gateway, error) {
	if err := h.flags.validate(); err != nil {
		return command.Gateway{}, err
	}
	secret, key, shown := h.flags.GitHubSecret, h.flags.EnrichCallbackKey, "that was given"
	for _, wanted := range []struct {
		name string
		into *string
	}{{"github-secret", &secret}, {"enrich-callback-key", &key}, {"signup-code-key", &h.codeKey}} {
		if *wanted.into != "" {
			continue
		}
		var err error
		if *wanted.into, err = generate(wanted.name); err != nil {
			return command.Gateway{}, err
		}
	}
	// The base address is a placeholder until the gateway listens.
	h.callbacks = enrich.Callbacks{Base: "http://127.0.0.1", Key: []byte(key), PreviousKey: []byte(h.flags.EnrichCallbackKeyPrevious)}
	if err := h.callbacks.Validate(); err != nil {
		return command.Gateway{}, fmt.Errorf("--enrich-callback-key and --enrich-callback-key-previous: %w", err)
	}
	if h.flags.GitHubSecret == "" {
		shown = secret
	}
	h.demo.Secret = secret
	secrets := gateway.Secrets{Current: []byte(secret), Previous: []byte(h.flags.GitHubSecretPrevious)}
	return command.Gateway{
		Webhooks: map[string]gateway.Webhook{webhook.Name: webhook.GitHub(secrets)}, Note: "POST /webhooks/github, signed with the secret " + shown,
		// Verify must use the same keys as the callback addresses.
		Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: h.callbacks.Verify, Read: enrich.ReadCallback}},
	}, nil
}

// demonstration returns the tour of --demo, or nil without the flag.
func (h *hosted) demonstration(out io.Writer) command.Demo {
	if !h.flags.Demo {
		return nil
	}
	config := h.demo
	config.Style = styleOf(out)
	return tour.New(out, config)
}

// consumerEnv returns the settings as environment variables of the consumer's executable.
func (h *hosted) consumerEnv(gatewayURL string) []string {
	return []string{
		"SETTLE_JOB_PICK_UP_TIMEOUT=" + h.flags.JobPickUpTimeout.String(),
		"SETTLE_JOB_LAUNCHES_MAX=" + strconv.Itoa(h.flags.JobLaunchesMax),
		"SETTLE_JOB_TIME_LIMIT=" + h.flags.JobTimeLimit.String(),
		"SETTLE_SIGNUP_DEADLINE=" + h.flags.SignupDeadline.String(),
		"SETTLE_SIGNUP_CODE_KEY=" + h.codeKey,
		"SETTLE_ENRICH_CALLBACK_BASE=" + gatewayURL,
		"SETTLE_ENRICH_CALLBACK_KEY=" + string(h.callbacks.Key),
		"SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS=" + string(h.callbacks.PreviousKey),
	}
}

// hostedMachines returns the machines with simulated services that only log.
func hostedMachines(logger *slog.Logger, settings machines.Settings) []durable.Machine {
	return machines.All(demo.Services(logger), settings)
}
