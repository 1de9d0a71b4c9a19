package samples

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
)

func TestMachineSettingsAreRead(t *testing.T) {
	t.Parallel()
	got := settings(host.NewEnv(hosttest.Environment(
		"SETTLE_JOB_PICK_UP_TIMEOUT=90s",
		"SETTLE_JOB_LAUNCHES_MAX=2",
		"SETTLE_JOB_TIME_LIMIT=1h",
		"SETTLE_JOB_RETENTION=48h",
		"SETTLE_ENRICH_CALLBACK_BASE=https://api.example.com",
		"SETTLE_ENRICH_CALLBACK_KEY=0123456789abcdef",
		"SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS=fedcba9876543210",
		"SETTLE_SIGNUP_CODE_KEY=0123456789abcdef",
		"SETTLE_SIGNUP_DEADLINE=12h",
		"SETTLE_SIGNUP_RETENTION=1h",
	)))
	want := machines.Settings{
		Job:             job.Config{PickUpTimeout: 90 * time.Second, LaunchesMax: 2, TimeLimit: time.Hour},
		JobRetention:    48 * time.Hour,
		EnrichCallbacks: enrich.Callbacks{Base: "https://api.example.com", Key: []byte("0123456789abcdef"), PreviousKey: []byte("fedcba9876543210")},
		Signup:          signup.Config{CodeKey: []byte("0123456789abcdef"), Deadline: 12 * time.Hour}, SignupRetention: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestMissingAndInvalidVariablesAreNamed starts a function with the variables that Lambda sets, and with missing or
// invalid variables of the machines.
func TestMissingAndInvalidVariablesAreNamed(t *testing.T) {
	t.Parallel()
	_, _, err := host.Start(host.Function{Machines: ConsumerMachines}, hosttest.Environment(
		"SETTLE_JOB_PICK_UP_TIMEOUT=5", "SETTLE_JOB_TIME_LIMIT=-1h", "SETTLE_JOB_LAUNCHES_MAX=0", "SETTLE_ENRICH_CALLBACK_KEY=short"), hosttest.AWS(""), io.Discard, io.Discard)
	const want = `reading the settings: environment variable SETTLE_JOB_PICK_UP_TIMEOUT: expected a positive duration such as 90s, 5m or 24h, got "5"
environment variable SETTLE_JOB_LAUNCHES_MAX: expected a number of at least 1, got "0"
environment variable SETTLE_JOB_TIME_LIMIT: expected a positive duration such as 90s, 5m or 24h, got "-1h"
environment variable SETTLE_ENRICH_CALLBACK_KEY: expected a secret of at least 16 bytes, got 5 bytes`
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "environment variable SETTLE_SIGNUP_CODE_KEY: expected a secret, got nothing: set it") {
		t.Errorf("got\n%v\nwant\n%s\n... and SETTLE_SIGNUP_CODE_KEY", err, want)
	}
}

func TestWrongPreviousSecretsAreReported(t *testing.T) {
	t.Parallel()
	for previous, want := range map[string]string{
		"SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS=hush": "environment variable SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS: expected a secret of at least 16 bytes, got 4 bytes",
		"SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS=hush-hush-hush-hush": "environment variable SETTLE_GITHUB_WEBHOOK_SECRET: expected a secret, " +
			"because SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS is set, got nothing: set it, or unset SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS",
	} {
		_, _, err := host.Start(host.Gateway(Machines, ThirdParties), hosttest.Environment("SETTLE_TABLE=t", "SETTLE_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/q.fifo",
			"SETTLE_ENRICH_CALLBACK_BASE=https://api.example.com", "SETTLE_ENRICH_CALLBACK_KEY=0123456789abcdef", previous), hosttest.AWS(""), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, want %s", previous, err, want)
		}
	}
}

func TestServicesLogPayloadsOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	for _, payloads := range []bool{false, true} {
		var logs strings.Builder
		p := &host.Process{Env: host.NewEnv(hosttest.Environment()), Settings: host.Settings{LogPayloads: payloads}, Logger: slog.New(slog.NewJSONHandler(&logs, nil))}
		made, err := Machines(p)
		if err != nil {
			t.Fatal(err)
		}
		hosted, err := durable.NewMachines(made...)
		if err != nil {
			t.Fatal(err)
		}
		if ids := hosted.IDs(); !slices.Contains(ids, "job") || !slices.Contains(ids, "signup") {
			t.Errorf("got machines %v", ids)
		}
		logger := p.Logger
		if !payloads {
			logger = slog.New(bare{logger.Handler()})
		}
		logger.With("to", "ada@example.com").WithGroup("g").Info("a mail", "code", "123456")
		for _, shown := range []bool{strings.Contains(logs.String(), "ada@example.com"), strings.Contains(logs.String(), "123456")} {
			if shown != payloads || !strings.Contains(logs.String(), "a mail") {
				t.Errorf("payloads %v: got %s", payloads, logs.String())
			}
		}
	}
}

func TestGatewayHasNoThirdPartiesWithoutSecrets(t *testing.T) {
	t.Parallel()
	parties := ThirdParties(&host.Process{Env: host.NewEnv(hosttest.Environment())})
	if len(parties.Webhooks) != 0 || len(parties.Callbacks) != 0 {
		t.Errorf("expected no webhooks and no callbacks, got %v", parties)
	}
}
