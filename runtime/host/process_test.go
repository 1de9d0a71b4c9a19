package host

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/logging"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/recording"
)

func TestGarbageMayFillThreeQuartersOfTheMemory(t *testing.T) {
	t.Parallel()
	const memory = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256"
	if percent, limit, ok := gcSettings(hosttest.Environment(memory)); percent != 400 || limit != 192<<20 || !ok {
		t.Errorf("expected 400 %% and 192 MiB, got %d %%, %d, %t", percent, limit, ok)
	}
	for _, environment := range [][]string{{}, {memory, "GOGC=50"}, {memory, "GOMEMLIMIT=100MiB"}, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=much"}, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=0"}, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=-1"}} {
		if _, _, ok := gcSettings(hosttest.Environment(environment...)); ok {
			t.Errorf("%v: expected the defaults", environment)
		}
	}
}

func TestASmallFunctionUsesOneProcessor(t *testing.T) {
	t.Parallel()
	for megabytes, want := range map[string]int{"128": 1, "256": 1, "1769": 1, "1770": 2, "3008": 2, "10240": 6} {
		if count, ok := processors(hosttest.Environment("AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + megabytes)); count != want || !ok {
			t.Errorf("%s MB: got %d, %t, want %d", megabytes, count, ok, want)
		}
	}
	for _, environment := range [][]string{{}, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "GOMAXPROCS=2"}, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=0"}} {
		if _, ok := processors(hosttest.Environment(environment...)); ok {
			t.Errorf("%v: expected the default", environment)
		}
	}
}

func TestSettingsAreRead(t *testing.T) {
	t.Parallel()
	env := NewEnv(hosttest.Environment(
		"SETTLE_TABLE=settle",
		"SETTLE_TABLE_INDEX=on",
		"SETTLE_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/events.fifo",
		"SETTLE_DEAD_LETTER_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/dead.fifo",
		"SETTLE_LANES=bulk=arn:aws:sqs:eu-central-1:123456789012:bulk.fifo, vip=arn:aws:sqs:eu-central-1:123456789012:vip.fifo",
		"SETTLE_LANE_RULES=signup=bulk",
		"SETTLE_DELAY_QUEUE_URL=http://localhost:4566/123456789012/delays",
		"SETTLE_WORKFLOWS=report=arn:aws:states:eu-central-1:123456789012:stateMachine:Report, audit=arn:aws:states:eu-central-1:123456789012:stateMachine:Audit:live",
		"SETTLE_EVENT_BUS=arn:aws:events:eu-central-1:123456789012:event-bus/team/orders",
		"SETTLE_HISTORY_MAX=100",
		"SETTLE_HOPS_MAX=50",
		"SETTLE_RECORD=0.01",
		"SETTLE_RECORD_REDACT=email, card.number",
		"SETTLE_RECORD_KEY=0123456789abcdef",
		"SETTLE_BASE_PATH=/settle",
		"SETTLE_SERVICE=orders",
		"SETTLE_LOG_LEVEL=warn",
		"SETTLE_LOG_PAYLOADS=on",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=a%2Cb, x-team = core",
	))
	env.Require(Table, QueueURL, DeadLetterQueueURL, DelayQueueURL)
	got := readSettings(env)
	if err := env.err(); err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Table:              "settle",
		TableIndex:         true,
		QueueURL:           "https://sqs.eu-central-1.amazonaws.com/123456789012/events.fifo",
		DeadLetterQueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/dead.fifo",
		DelayQueueURL:      "http://localhost:4566/123456789012/delays",
		Lanes: map[string]string{
			"bulk": "arn:aws:sqs:eu-central-1:123456789012:bulk.fifo",
			"vip":  "arn:aws:sqs:eu-central-1:123456789012:vip.fifo",
		},
		LaneRules: "signup=bulk",
		Workflows: map[string]string{
			"report": "arn:aws:states:eu-central-1:123456789012:stateMachine:Report",
			"audit":  "arn:aws:states:eu-central-1:123456789012:stateMachine:Audit:live",
		},
		EventBus:       "arn:aws:events:eu-central-1:123456789012:event-bus/team/orders",
		HistoryMax:     100,
		HopsMax:        50,
		Recording:      recording.Config{Share: 0.01, Redact: []string{"email", "card.number"}, Key: []byte("0123456789abcdef")},
		BasePath:       "/settle",
		Service:        "orders",
		LogLevel:       slog.LevelWarn,
		LogPayloads:    true,
		TracesEndpoint: &url.URL{Scheme: "http", Host: "localhost:4318"},
		TracesHeaders:  map[string]string{"api-key": "a,b", "x-team": "core"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestSchedulerSettingsAreCompleteOrAbsent(t *testing.T) {
	t.Parallel()
	const (
		queue = "SETTLE_DELAY_QUEUE_ARN=arn:aws:sqs:eu-central-1:123456789012:delays"
		dead  = "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN=arn:aws:sqs:eu-central-1:123456789012:lost"
		role  = "SETTLE_SCHEDULER_ROLE_ARN=arn:aws:iam::123456789012:role/scheduler"
	)
	for _, c := range []struct {
		variables []string
		want      string
	}{
		{[]string{queue, role}, ""},
		{[]string{queue, role, dead}, ""},
		{[]string{queue}, "SETTLE_DELAY_QUEUE_ARN and SETTLE_SCHEDULER_ROLE_ARN: expected both or neither, got one"},
		{[]string{dead}, "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN: expected no value without SETTLE_DELAY_QUEUE_ARN and SETTLE_SCHEDULER_ROLE_ARN, " +
			`because only EventBridge Scheduler uses it, got "arn:aws:sqs:eu-central-1:123456789012:lost"`},
		{[]string{queue, role, dead + ".fifo"}, `SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN: expected the ARN of a standard queue, got "arn:aws:sqs:eu-central-1:123456789012:lost.fifo"`},
		{[]string{queue, role, "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN=lost"}, `SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN: expected an ARN of sqs, got "lost"`},
	} {
		env := NewEnv(hosttest.Environment(c.variables...))
		settings := readSettings(env)
		got := ""
		if err := env.err(); err != nil {
			_, got, _ = strings.Cut(err.Error(), "environment variable ")
		}
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.variables, got, c.want)
		}
		if len(c.variables) == 3 && c.want == "" && settings.DelayDeadLetterQueueARN != "arn:aws:sqs:eu-central-1:123456789012:lost" {
			t.Errorf("got the queue %q", settings.DelayDeadLetterQueueARN)
		}
	}
}

func TestHistoryMaxIsLimited(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"": 0, "1": 1, "20": 20, "100": 100} {
		env := NewEnv(hosttest.Environment("SETTLE_HISTORY_MAX=" + value))
		if got := readSettings(env).HistoryMax; got != want || env.err() != nil {
			t.Errorf("%q: got %d and %v, want %d", value, got, env.err(), want)
		}
	}
	for _, value := range []string{"0", "-1", "101", "3.5", "many", "99999999999999999999"} {
		env := NewEnv(hosttest.Environment("SETTLE_HISTORY_MAX=" + value))
		readSettings(env)
		want := "reading the settings: environment variable SETTLE_HISTORY_MAX: expected a whole number from 1 to 100, or no value for the default, got " + strconv.Quote(value)
		if err := env.err(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRecordingSettingsAreChecked(t *testing.T) {
	t.Parallel()
	const share = "SETTLE_RECORD: expected a number above 0 and at most 1, such as 0.01, got "
	for variables, want := range map[string]string{
		"SETTLE_RECORD=1":                            "",
		"SETTLE_RECORD=0":                            share + `"0"`,
		"SETTLE_RECORD=1.01":                         share + `"1.01"`,
		"SETTLE_RECORD=NaN":                          share + `"NaN"`,
		"SETTLE_RECORD=on":                           share + `"on"`,
		"SETTLE_RECORD=1 SETTLE_RECORD_REDACT=email": "SETTLE_RECORD_KEY: expected a secret of at least 16 bytes with SETTLE_RECORD_REDACT, got nothing: set it",
		"SETTLE_RECORD=1 SETTLE_RECORD_REDACT=email SETTLE_RECORD_KEY=hush":                     "SETTLE_RECORD_KEY: expected a secret of at least 16 bytes, got 4 bytes",
		"SETTLE_RECORD=1 SETTLE_RECORD_REDACT=card..number SETTLE_RECORD_KEY=01234567890123456": `SETTLE_RECORD_REDACT: expected keys separated by commas, such as email,card.number, got "card..number"`,
	} {
		env := NewEnv(hosttest.Environment(strings.Fields(variables)...))
		readSettings(env)
		got := ""
		if err := env.err(); err != nil {
			_, got, _ = strings.Cut(err.Error(), "environment variable ")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", variables, got, want)
		}
	}
}

func TestOnlyNamedVariablesAreRequired(t *testing.T) {
	t.Parallel()
	env := NewEnv(hosttest.Environment("SETTLE_SERVICE="))
	if diff := cmp.Diff(Settings{Service: "settle"}, readSettings(env)); diff != "" || env.err() != nil {
		t.Errorf("got %v, settings (-want +got):\n%s", env.err(), diff)
	}
}

// own reads variables as a user's machines do.
func own(p *Process) ([]durable.Machine, error) {
	p.Env.Require("BANK_URL")
	if p.Env.Text("BANK_URL", "the address of the bank"); p.Env.Count("BANK_TRIES") == 0 {
		panic("no tries")
	}
	p.Env.Secret("BANK_KEY", 16)
	p.Env.Duration("BANK_WAIT")
	return nil, nil
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := Start(Function{Requires: []string{Table, QueueURL, ScheduleGroup}, Machines: own}, hosttest.Environment(
		"SETTLE_TABLE=",
		"SETTLE_TABLE_INDEX=yes",
		"SETTLE_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/events",
		"SETTLE_DELAY_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/delays.fifo",
		"SETTLE_DEAD_LETTER_QUEUE_URL=dead.fifo",
		"SETTLE_WORKFLOWS=report=Report,audit=arn:aws:states:eu-central-1:123456789012:stateMachine:a,audit=arn:aws:states:eu-central-1:123456789012:stateMachine:b",
		"SETTLE_LANES=main=arn:aws:sqs:eu-central-1:123456789012:main.fifo",
		"SETTLE_LANE_RULES=signup=bulk",
		"SETTLE_EVENT_BUS=arn:aws:events:eu-central-1:123456789012:rule/orders",
		"SETTLE_LOG_LEVEL=loud",
		"SETTLE_LOG_PAYLOADS=all",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:hush@collector",
		"OTEL_EXPORTER_OTLP_HEADERS=a=b,hush",
		"BANK_TRIES=-1",
	), func(context.Context) (aws.Config, error) {
		return aws.Config{Credentials: credentials.StaticCredentialsProvider{}}, nil
	}, io.Discard, io.Discard)
	const want = `reading the settings: environment variable SETTLE_TABLE: expected the name of the DynamoDB table, got nothing: set it
environment variable SETTLE_TABLE_INDEX: expected on or off, got "yes"
environment variable SETTLE_QUEUE_URL: expected the URL of the FIFO queue, which ends in .fifo, such as https://sqs.eu-central-1.amazonaws.com/123456789012/name.fifo, got "https://sqs.eu-central-1.amazonaws.com/123456789012/events"
environment variable SETTLE_DEAD_LETTER_QUEUE_URL: expected the URL of the FIFO dead-letter queue, which ends in .fifo, such as https://sqs.eu-central-1.amazonaws.com/123456789012/name.fifo, got "dead.fifo"
environment variable SETTLE_DELAY_QUEUE_URL: expected the URL of the standard queue for timers, such as https://sqs.eu-central-1.amazonaws.com/123456789012/name; FIFO queues cannot delay single messages, got "https://sqs.eu-central-1.amazonaws.com/123456789012/delays.fifo"
environment variable SETTLE_SCHEDULE_GROUP: expected the name of a schedule group, got nothing: set it
environment variable SETTLE_WORKFLOWS: expected workflows with their ARNs, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas, got "report=Report"
environment variable SETTLE_WORKFLOWS: expected each workflow once, got "audit" twice
environment variable SETTLE_EVENT_BUS: expected the name or the ARN of an event bus, such as orders or arn:aws:events:eu-central-1:123456789012:event-bus/orders, got "arn:aws:events:eu-central-1:123456789012:rule/orders"
environment variable SETTLE_LOG_LEVEL: expected debug, info, warn or error, got "loud"
environment variable SETTLE_LOG_PAYLOADS: expected on or off, got "all"
environment variable OTEL_EXPORTER_OTLP_ENDPOINT: expected the URL of a collector for OTLP over HTTP, such as http://localhost:4318, with keys in OTEL_EXPORTER_OTLP_HEADERS instead, got another value (not shown)
environment variable OTEL_EXPORTER_OTLP_HEADERS: expected headers such as api-key=value, separated by commas, got an invalid header at position 2 (not shown)
environment variable SETTLE_LANES: expected lanes with the ARNs of their FIFO queues, such as bulk=arn:aws:sqs:eu-central-1:123456789012:bulk.fifo, separated by commas; a name has 1 to 32 of the characters a-z, 0-9 and - and is not main, got "main=arn:aws:sqs:eu-central-1:123456789012:main.fifo"
environment variable SETTLE_LANE_RULES: expected one of the lanes main, got "bulk" in "signup=bulk"
environment variable AWS_REGION: expected the function's Region, which Lambda sets, got nothing: set it
environment variable AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: expected the credentials of the function's role, which Lambda sets, got nothing: set them
environment variable BANK_URL: expected the address of the bank, got nothing: set it
environment variable BANK_TRIES: expected a number of at least 1, got "-1"`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestPanickingMachinesAreAnError(t *testing.T) {
	t.Parallel()
	_, _, err := Start(Function{Machines: func(*Process) ([]durable.Machine, error) { panic("a chart is not valid") }},
		hosttest.Environment(), hosttest.AWS(""), io.Discard, io.Discard)
	if want := "building the machines: panic: a chart is not valid"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// setenv sets variables and hides the configuration files of this machine.
func setenv(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, t.TempDir()+"/none")
	}
	for _, name := range []string{"AWS_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

//nolint:paralleltest // It sets environment variables.
func TestClientsAreConfiguredByTheEnvironment(t *testing.T) {
	setenv(t, map[string]string{
		"AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "session",
		"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_SFN": "http://other", "AWS_MAX_ATTEMPTS": "7", "AWS_RETRY_MODE": "adaptive", "AWS_USE_FIPS_ENDPOINT": "true",
	})
	env := NewEnv(hosttest.Environment())
	config := env.awsConfig(loadAWS)
	if env.err() != nil {
		t.Fatal(env.err())
	}
	keys, err := config.Credentials.Retrieve(t.Context())
	if err != nil || keys.AccessKeyID != "id" || keys.SecretAccessKey != "hush" || keys.SessionToken != "session" {
		t.Errorf("got credentials %+v and %v, want the credentials in the environment", keys, err)
	}
	if config.Region != "eu-central-1" || config.RetryMaxAttempts != 7 || config.RetryMode != aws.RetryModeAdaptive || config.Logger != (logging.Nop{}) {
		t.Errorf("got Region %q, %d tries, retry mode %q, logger %T", config.Region, config.RetryMaxAttempts, config.RetryMode, config.Logger)
	}
	options := sqs.NewFromConfig(config).Options()
	if aws.ToString(options.BaseEndpoint) != "http://all" || options.EndpointOptions.UseFIPSEndpoint != aws.FIPSEndpointStateEnabled {
		t.Errorf("got endpoint %q, FIPS %v, want http://all and FIPS", aws.ToString(options.BaseEndpoint), options.EndpointOptions.UseFIPSEndpoint)
	}
	if endpoint := aws.ToString(sfn.NewFromConfig(config).Options().BaseEndpoint); endpoint != "http://other" {
		t.Errorf("got the service endpoint %q, want http://other", endpoint)
	}
}

//nolint:paralleltest // It sets environment variables.
func TestInvalidAWSSettingsAreReportedWithAllOthers(t *testing.T) {
	const before = "reading the settings: environment variable SETTLE_TABLE: expected the name of the DynamoDB table, got nothing: set it\n" +
		"AWS settings: expected values that the SDK accepts, got an error: invalid "
	for name, want := range map[string]string{"AWS_RETRY_MODE": "AWS_RETRY_MODE value, unknown RetryMode, eager", "AWS_MAX_ATTEMPTS": "value AWS_MAX_ATTEMPTS=eager, "} {
		t.Run(name, func(t *testing.T) {
			setenv(t, map[string]string{name: "eager"})
			_, _, err := Start(Function{Requires: []string{Table}}, hosttest.Environment(), loadAWS, io.Discard, io.Discard)
			if err == nil || !strings.HasPrefix(err.Error(), before+want) {
				t.Errorf("expected %q, got %v", before+want, err)
			}
		})
	}
}

// TestStartPassesSettingsAndMachines starts a function and checks its lines of metrics and log.
func TestStartPassesSettingsAndMachines(t *testing.T) {
	t.Parallel()
	var metrics, logs strings.Builder
	handler, _, err := Start(Function{
		Requires: []string{Table},
		Handler: func(p *Process, machines *durable.Machines) (any, error) {
			if machines != nil || p.Settings.Table != "settle" || p.AWS.Region != "eu-central-1" {
				t.Errorf("got machines %v, table %q, Region %q", machines, p.Settings.Table, p.AWS.Region)
			}
			return func(name string) (string, error) { p.Logger.Info("asked"); return "hello " + name, nil }, nil
		},
	}, hosttest.Environment("SETTLE_TABLE=settle"), hosttest.AWS(""), &metrics, &logs)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := handler.Invoke(t.Context(), []byte(`"world"`))
	if err != nil || string(answer) != `"hello world"` {
		t.Errorf("got %s and %v", answer, err)
	}
	if !strings.Contains(metrics.String(), `"Service":"settle"`) || strings.Count(metrics.String(), "\n") != 1 {
		t.Errorf("got metrics %q, want one line for the service settle", metrics.String())
	}
	if !strings.Contains(logs.String(), `"msg":"asked"`) {
		t.Errorf("got log %q, want the handler's line", logs.String())
	}
}

func TestVariablesOfTheHandlerAreChecked(t *testing.T) {
	t.Parallel()
	for want, read := range map[string]func(*Process){
		"environment variable ACME_KEY: expected":     func(p *Process) { p.Env.Require("ACME_KEY"); p.Env.Secret("ACME_KEY", 16) },
		"building the handler: panic: no third party": func(*Process) { panic("no third party") },
	} {
		function := Function{Handler: func(p *Process, _ *durable.Machines) (any, error) {
			read(p)
			return func() {}, nil
		}}
		_, _, err := Start(function, hosttest.Environment(), hosttest.AWS(""), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
}

// TestRuntimeClientsHaveATimeout shows that the runtime's clients have a timeout and the services' clients have none.
func TestRuntimeClientsHaveATimeout(t *testing.T) {
	t.Parallel()
	p := &Process{AWS: aws.Config{Region: "eu-central-1"}}
	if _, ok := p.RuntimeAWS().HTTPClient.(attempts); !ok || p.AWS.HTTPClient != nil {
		t.Errorf("got %T for the runtime and %T for services, want the client with AttemptTimeout and the SDK's", p.RuntimeAWS().HTTPClient, p.AWS.HTTPClient)
	}
	if first, second := p.RuntimeAWS(), p.RuntimeAWS(); first.HTTPClient != second.HTTPClient {
		t.Error("want one client, so that connections are shared")
	}
	p.AWS.HTTPClient = http.DefaultClient
	if got := p.RuntimeAWS().HTTPClient; got != http.DefaultClient {
		t.Errorf("got %v, want the custom client unchanged", got)
	}
}
