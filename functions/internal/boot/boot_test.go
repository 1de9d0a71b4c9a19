package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
)

// environment is a lookup of variables written as NAME=value.
func environment(variables ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, variable := range variables {
			if value, ok := strings.CutPrefix(variable, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func TestSettingsAreRead(t *testing.T) {
	t.Parallel()
	got, err := readSettings(environment(
		"SETTLE_TABLE=settle",
		"SETTLE_TABLE_INDEX=on",
		"SETTLE_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/events.fifo",
		"SETTLE_DEAD_LETTER_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/dead.fifo",
		"SETTLE_DELAY_QUEUE_URL=http://localhost:4566/123456789012/delays",
		"SETTLE_WORKFLOWS=report=arn:aws:states:eu-central-1:123456789012:stateMachine:Report, audit=arn:aws:states:eu-central-1:123456789012:stateMachine:Audit:live",
		"SETTLE_GITHUB_WEBHOOK_SECRET=hush",
		"SETTLE_JOB_PICK_UP_TIMEOUT=90s",
		"SETTLE_JOB_LAUNCHES_MAX=2",
		"SETTLE_JOB_TIME_LIMIT=1h",
		"SETTLE_JOB_RETENTION=48h",
		"SETTLE_SIGNUP_CODE_KEY=0123456789abcdef",
		"SETTLE_SIGNUP_DEADLINE=12h",
		"SETTLE_SIGNUP_RETENTION=1h",
	), []string{Table, QueueURL, DeadLetterQueueURL, DelayQueueURL, GitHubWebhookSecret})
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Table:              "settle",
		TableIndex:         true,
		QueueURL:           "https://sqs.eu-central-1.amazonaws.com/123456789012/events.fifo",
		DeadLetterQueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/dead.fifo",
		DelayQueueURL:      "http://localhost:4566/123456789012/delays",
		Workflows: map[string]string{
			"report": "arn:aws:states:eu-central-1:123456789012:stateMachine:Report",
			"audit":  "arn:aws:states:eu-central-1:123456789012:stateMachine:Audit:live",
		},
		GitHubWebhookSecret: "hush",
		Machines: machines.Settings{
			Job:          job.Config{PickUpTimeout: 90 * time.Second, LaunchesMax: 2, TimeLimit: time.Hour},
			JobRetention: 48 * time.Hour,
			Signup:       signup.Config{CodeKey: []byte("0123456789abcdef"), Deadline: 12 * time.Hour}, SignupRetention: time.Hour,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestNothingIsRequiredThatIsNotNamed(t *testing.T) {
	t.Parallel()
	got, err := readSettings(environment("SETTLE_JOB_LAUNCHES_MAX="), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Settings{}, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := readSettings(environment(
		"SETTLE_TABLE=",
		"SETTLE_TABLE_INDEX=yes",
		"SETTLE_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/events",
		"SETTLE_DELAY_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/delays.fifo",
		"SETTLE_DEAD_LETTER_QUEUE_URL=dead.fifo",
		"SETTLE_WORKFLOWS=report=Report,audit=arn:aws:states:eu-central-1:123456789012:stateMachine:a,audit=arn:aws:states:eu-central-1:123456789012:stateMachine:b",
		"SETTLE_JOB_PICK_UP_TIMEOUT=5",
		"SETTLE_JOB_TIME_LIMIT=-1h",
		"SETTLE_JOB_LAUNCHES_MAX=0",
		"SETTLE_SIGNUP_CODE_KEY=short",
	), []string{Table, QueueURL, GitHubWebhookSecret})
	const want = `reading the settings: environment variable SETTLE_TABLE: expected the name of the DynamoDB table, got nothing: set it
environment variable SETTLE_TABLE_INDEX: expected on or off, got "yes"
environment variable SETTLE_QUEUE_URL: expected the URL of the FIFO queue, which ends in .fifo, got "https://sqs.eu-central-1.amazonaws.com/123456789012/events"
environment variable SETTLE_DEAD_LETTER_QUEUE_URL: expected the URL of the FIFO dead-letter queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/name, got "dead.fifo"
environment variable SETTLE_DELAY_QUEUE_URL: expected the URL of the standard queue for timers, as FIFO queues cannot delay single messages, got "https://sqs.eu-central-1.amazonaws.com/123456789012/delays.fifo"
environment variable SETTLE_WORKFLOWS: expected workflows with their ARNs, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas, got "report=Report"
environment variable SETTLE_WORKFLOWS: expected each workflow once, got "audit" twice
environment variable SETTLE_GITHUB_WEBHOOK_SECRET: expected the secret of the GitHub webhook, got nothing: set it
environment variable SETTLE_JOB_PICK_UP_TIMEOUT: expected a positive duration such as 90s, 5m or 24h, got "5"
environment variable SETTLE_JOB_LAUNCHES_MAX: expected a number of at least 1, got "0"
environment variable SETTLE_JOB_TIME_LIMIT: expected a positive duration such as 90s, 5m or 24h, got "-1h"
environment variable SETTLE_SIGNUP_CODE_KEY: expected a secret of at least 16 bytes, got 5 bytes`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Not parallel: it sets environment variables of the process.
func TestStartHandsOverSettingsAndMachines(t *testing.T) {
	t.Setenv(Table, "settle")
	t.Setenv("AWS_REGION", "eu-central-1")
	failure := errors.New("no handler")
	_, err := start(t.Context(), slog.New(slog.NewJSONHandler(io.Discard, nil)), func(p Process) (any, error) {
		hosted, err := p.Machines()
		if err != nil {
			t.Fatal(err)
		}
		if ids := hosted.IDs(); !slices.Contains(ids, "job") || !slices.Contains(ids, "signup") || p.Settings.Table != "settle" || p.AWS.Region != "eu-central-1" {
			t.Errorf("got machines %v, table %q, Region %q", hosted.IDs(), p.Settings.Table, p.AWS.Region)
		}
		return nil, failure
	}, []string{Table})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want the error of the function", err)
	}
	if _, err := start(context.Background(), nil, nil, []string{GitHubWebhookSecret}); err == nil || !strings.Contains(err.Error(), GitHubWebhookSecret) {
		t.Errorf("got %v, want an error that names the missing variable", err)
	}
}
