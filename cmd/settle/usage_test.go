package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/producer"
)

// wrongLines are command lines that fail, with the exit code and a part of the message.
var wrongLines = []struct {
	command string
	code    int
	want    string
}{
	{"frobnicate", command.ExitUsage, "unexpected argument frobnicate"},
	{"check --status done", command.ExitUsage, `must be one of "active","any" but got "done"`},
	{"send", command.ExitUsage, `usage: an argument is missing: expected "<instance>"; see settle send --help`},
	{"dev --http-port 70000", command.ExitUsage, "http-port"},
	{"dev --job-time-limit 0s", command.ExitUsage, "--job-time-limit: expected more than zero"},
	{"dev --concurrency 0", command.ExitUsage, "--concurrency: expected more than zero"},
	{"dev --function-timeout 16m", command.ExitUsage, "--function-timeout: expected 5s to 15m, got 16m0s"},
	{"dev --function-timeout 4.9s", command.ExitUsage, "--function-timeout: expected 5s to 15m, got 4.9s; two seconds of it are reserved for storing, so services need more"},
	{"dev --consumer bootstrap --consumer-env KEY", command.ExitUsage, `--consumer-env: expected KEY=VALUE, got "KEY"`},
	{"dev --consumer-env KEY=1", command.ExitUsage, "--consumer-env: expected --consumer with it, got none"},
	{"dev --allow-host http://laptop.lan", command.ExitUsage, `--allow-host: expected a host name without a port, such as host.docker.internal, got "http://laptop.lan"`},
	{"dev --allow-host laptop.lan:7388", command.ExitUsage, `without a port, such as host.docker.internal, got "laptop.lan:7388"`},
	{"dev --clock fast", command.ExitUsage, `--clock must be one of "real","virtual" but got "fast"`},
	{"dev --clock virtual --consumer bootstrap", command.ExitUsage, "--clock virtual: expected no --consumer with it, because the executable reads the real time; without --consumer, this process runs the same machines"},
	{"dev --inspect --consumer bootstrap", command.ExitUsage, "--inspect: expected no --consumer with it, because settle dev does not see the commits of the executable; without --consumer, this process runs the same machines"},
	{"dev --inspect --inspect-origin localhost:5173", command.ExitUsage, `--inspect-origin: expected an origin without path and wildcard, such as http://localhost:5173, got "localhost:5173"`},
	{"dev --inspect-origin http://localhost:5173", command.ExitUsage, "--inspect-origin: expected --inspect with it, got none"},
	{"clock advance", command.ExitUsage, `an argument is missing: expected "<duration>"; see settle clock advance`},
	{"clock advance soon", command.ExitUsage, `usage: <duration>: expected a duration such as 72h, got "soon"; see settle clock advance --help`},
	{"clock advance 3d", command.ExitUsage, `expected a duration such as 72h, got "3d"`},
	{"clock advance 72", command.ExitUsage, `expected a duration such as 72h, got "72"`},
	{"clock advance -1h", command.ExitUsage, `usage: expected a duration such as 72h, got "-1h"; see settle clock advance --help`},
	{"clock advance 0s", command.ExitUsage, "expected a duration of more than zero and at most 87600h0m0s, got 0s"},
	{"clock advance 87601h", command.ExitUsage, "expected a duration of more than zero and at most 87600h0m0s, got 87601h0m0s"},
	{"clock 72h", command.ExitUsage, "unexpected argument 72h"},
	{"list --limit 0", command.ExitUsage, "--limit: expected at least 1, got 0"},
	{"list --limit=-1", command.ExitUsage, "usage: --limit: expected at least 1, got -1\n"},
	{"list --limit --local", command.ExitUsage, `usage: --limit: expected int value but got "--local" (long flag); perhaps try --limit="--local"?; see settle list`},
	{"list --limit", command.ExitUsage, `usage: --limit: expected int, got no value; see settle list`},
	{"list --limit 1.5", command.ExitUsage, `usage: --limit: expected a valid 64 bit int but got "1.5"; see settle list`},
	{"dlq list --limit=-1", command.ExitUsage, "usage: --limit: expected at least 1, got -1\n"},
	{"send signup/42 RESEND --wait done --timeout=-1s", command.ExitUsage, "usage: --timeout: expected more than zero, got -1s\n"},
	{"send signup/42 RESEND --wait done --timeout soon", command.ExitUsage, `usage: --timeout: expected a duration such as 72h, got "soon"; see settle send`},
	{"dev --http-port=-1", command.ExitUsage, `usage: --http-port: expected a valid 16 bit uint but got "-1"; see settle dev`},
	{"dev --concurrency=-1", command.ExitUsage, "--concurrency: expected more than zero"},
	{"dev --job-time-limit=-1s", command.ExitUsage, "--job-time-limit: expected more than zero"},
	{"list --consistent --cursor x", command.ExitUsage, "expected either --cursor, which reads the index, or --consistent, which reads the table, got both"},
	{"list --local --cursor x", command.ExitUsage, `usage: --cursor: expected the whole cursor that settle list printed for the same --machine, --state, --tag and --status, got "x"; omit --cursor to start from the beginning`},
	{"get -o yaml signup/42", command.ExitUsage, `must be one of "auto","text","json" but got "yaml"`},
	{"get order/a/b", command.ExitUsage, `expected machine/id such as signup/42, got "order/a/b"; write the ID without a slash, such as a-b`},
	{"get signup/ü", command.ExitUsage, `expected ASCII letters, digits and punctuation, got "ü" at byte 7 of "signup/ü"`},
	{"get signup", command.ExitUsage, `expected machine/id such as signup/42, got "signup"`},
	{"get", command.ExitUsage, "expected either an instance, such as signup/42, or --alias"},
	{"get --alias job-7 signup/42", command.ExitUsage, "expected either an instance, such as signup/42, or --alias"},
	{"send signup/42 VERIFY code", command.ExitUsage, `expected key=value or key:=JSON, got "code"`},
	{"send signup/42 VERIFY code:=x", command.ExitUsage, `expected JSON after code:=, got "x"; write a string as code=x`},
	{"send signup/42 VERIFY code=1 code=2", command.ExitUsage, `the key "code" is given twice`},
	{"send signup/42 VERIFY code=1 --json {}", command.ExitUsage, "expected the payload as key=value or as --json, got both"},
	{"send signup/42 VERIFY --json [1]", command.ExitUsage, `expected a JSON object`},
	{"send signup/42 VERIFY type=x", command.ExitUsage, `must not have the key "type"`},
	{"send signup/42 VERIFY $id=x", command.ExitUsage, `must not have the key "$id"`},
	{"send signup/42 RESEND --id " + strings.Repeat("x", 257), command.ExitUsage, "--id: expected at most 256 bytes, got 257"},

	{"dlq list --limit 0", command.ExitUsage, "--limit: expected at least 1, got 0"},
	{"dlq redrive", command.ExitUsage, "expected either IDs of messages, or --instance, or --all"},
	{"resume signup", command.ExitUsage, `expected machine/id such as signup/42, got "signup"`},
	{"watch signup", command.ExitUsage, `expected machine/id such as signup/42, got "signup"`},
	{"watch", command.ExitUsage, "expected either an instance, such as signup/42, or --machine"},
	{"watch signup/42 --machine signup", command.ExitUsage, "expected either an instance, such as signup/42, or --machine"},
	{"watch signup/42 --tag x", command.ExitUsage, "--state and --tag: expected --machine with them, got an instance"},
	{"watch --machine signup --every 1ms", command.ExitUsage, "--every: expected at least 100ms, got 1ms"},
	{"watch --machine signup --state nope", command.ExitNotFound, `machine signup has no state "nope"`},
	{"watch --machine signup --tag nope", command.ExitNotFound, `machine signup has no tag "nope": expected one of failed, settled`},
	{"list --machine signup --tag nope", command.ExitNotFound, `machine signup has no tag "nope": expected one of failed, settled`},
	{"export --machine signup --tag nope", command.ExitNotFound, `machine signup has no tag "nope": expected one of failed, settled`},
	{"watch --machine nope", command.ExitNotFound, `, got "nope"`},
	{"watch --local --machine signup --table nope", command.ExitFailed, "in table nope: no such table"},
	{"graph --format xstate", command.ExitUsage, "--format: expected a machine or an instance with it, got none"},
	{"graph --format svg", command.ExitUsage, "--format: expected a machine or an instance with it, got none"},
	{"graph --open", command.ExitUsage, "--open: expected a machine or an instance with it, got none"},
	{"graph signup --open --format xstate", command.ExitUsage, "--open: expected --format svg with it or none, got xstate"},
	{"graph signup -o json", command.ExitUsage, "-o, or --output, is for the list of machines: expected --format xstate for a chart in JSON, or neither for Mermaid"},
	{"send signup/42 RESEND --timeout 5s", command.ExitUsage, "--timeout: expected --wait with it, got none"},
	{"resume signup/42 --timeout 5s", command.ExitUsage, "--timeout: expected --wait with it, got none"},
	{"completion", command.ExitUsage, `expected "<bash|zsh|fish>"; see settle completion --help`},
	{"dlq", command.ExitUsage, `expected one of "list", "show", "redrive", "drop"; see settle dlq --help`},
	{"send signup/42 RESEND --wait setled", command.ExitUsage, `--wait: machine signup has no tag "setled": expected one of settled, done, failed`},
	{"resume signup/42 --wait setled", command.ExitUsage, `--wait: machine signup has no tag "setled": expected one of settled, done, failed`},

	{"graph nope", command.ExitNotFound, `, got "nope"`},
	{"graph --local signup/42", command.ExitNotFound, "no instance signup/42 in table settle"},
	{"watch nope/1", command.ExitNotFound, `, got "nope"`},
	{"export --machine nope", command.ExitNotFound, `, got "nope"`},
	{"migrate --dry-run --machine nope", command.ExitNotFound, `, got "nope"`},
	{"history --local signup/42", command.ExitNotFound, "no instance signup/42 in table settle"},
	{"resume --local nope/1", command.ExitNotFound, `, got "nope"`},
	{"dlq show --local nope", command.ExitNotFound, "the queue does not offer message nope: it offers at most ten events of an instance at a time, and none that are in flight; see settle dlq list --local\n"},
	{"send nope/1 X", command.ExitNotFound, `, got "nope"`},
	{"list --machine nope", command.ExitNotFound, `, got "nope"`},
	{"check --machine nope", command.ExitNotFound, `, got "nope"`},
	{"get --local signup/42", command.ExitNotFound, "no instance signup/42 in table settle"},
	{"get --local --alias enricher/job-7", command.ExitNotFound, `no instance has the alias "enricher/job-7" in table settle`},

	{"send signup/42 NOPE", command.ExitRefused, `has no event "NOPE"; it declares CANCEL, CHANGE_ADDRESS, RESEND, SIGN_UP, VERIFY`},
	{"send signup/42 VERIFY", command.ExitRefused, "expected a code of 1 to 128 bytes, got 0"},
	{"send job/run-1-job-2 queued run_id=1", command.ExitRefused, "write numbers, booleans, lists and objects as run_id:=value"},
	{"send signup/42 settle.timer timer=1", command.ExitRefused, "reserved for the runtime"},
	{"send signup/42 RESEND $task=x", command.ExitRefused, "reserved for the runtime"},
	{"send signup/42 RESEND x=" + strings.Repeat("x", producer.EventBytesMax), command.ExitRefused, "expected an event of at most 1040384 bytes"},

	{"get --local --table nope signup/42", command.ExitFailed, "in table nope: no such table"},
	{"get --local --table nope signup/42", command.ExitFailed, "permissions or resources change): ResourceNotFoundException: Requested resource not found\n"},
	{"get --local --table nope --alias job-7", command.ExitFailed, "in table nope: no such table"},
	{"list --local --table nope", command.ExitFailed, "in table nope: no such table"},
	{"check --local --table nope", command.ExitFailed, "in table nope: no such table"},
	{"export --local --table nope", command.ExitFailed, "in table nope: no such table"},
	{"backup --local --table nope", command.ExitFailed, "reading the items of table nope: the backup is incomplete: ResourceNotFoundException: Requested resource not found"},
	{"watch --local --table nope signup/42", command.ExitFailed, "in table nope: no such table"},
	{"dlq list --local --dead-letter-queue nope.fifo", command.ExitFailed, "no such queue"},
	{"dlq redrive --local --all --queue nope.fifo", command.ExitFailed, "no such queue"},
	{"send --local --queue nope.fifo signup/42 RESEND", command.ExitFailed, "permissions or resources change): AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist"},
}

func TestErrorsAreOneLineWithTheDocumentedExitCode(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for _, c := range wrongLines {
			got := u.run(strings.Fields(c.command)...)
			if got.code != c.code || got.out != "" || !strings.HasPrefix(got.err, "settle: ") || !strings.Contains(got.err, c.want) {
				u.t.Errorf("settle %.80s: expected exit code %d and %q, got %d and %q%q", c.command, c.code, c.want, got.code, got.err, got.out)
			}
			if unknown := "expected one of " + strings.Join(machineIDs(u.t), ", ") + `, got "nope"`; strings.Contains(c.want, `got "nope"`) && !strings.Contains(got.err, unknown) {
				u.t.Errorf("settle %s: expected the list of machines, %q, got %q", c.command, unknown, got.err)
			}
			if strings.Count(got.err, "\n") != 1 {
				u.t.Errorf("settle %.80s: expected one line, got %q", c.command, got.err)
			}
		}
	})
}

func TestErrorsContainNoEscapeSequences(t *testing.T) {
	t.Parallel()
	got := user{t: t}.run("send", "signup/42", "\x1b[2J\u009b\u202eX")
	if got.code != command.ExitRefused || strings.ContainsAny(got.err, "\x1b\u009b\u202e") || !strings.Contains(got.err, `\x1b[2J`) {
		t.Errorf("expected the event's type to be escaped, got %q", got.err)
	}
	got = user{t: t}.run("dlq", "show", "\x1b[2J", "\u009b")
	if strings.ContainsAny(got.err, "\x1b\u009b") || got.code != command.ExitUsage {
		t.Errorf("expected exit code 2 and no escapes, got %+v", got)
	}
}

func TestLocalWithoutDevSaysToStartIt(t *testing.T) {
	t.Parallel()
	var errOut strings.Builder
	code := command.Run(t.Context(), settle(), command.Process{Err: &errOut, Endpoint: "http://127.0.0.1:1"}, []string{"get", "--local", "signup/42"})
	if want := "settle: cannot connect to http://127.0.0.1:1: start it with settle dev\n"; code != command.ExitFailed || errOut.String() != want {
		t.Errorf("expected exit code 1 and %q, got %d and %q", want, code, errOut.String())
	}
}

func TestHelpListsCommandsAndExitCodes(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for _, args := range [][]string{nil, {"--help"}} {
		help := u.must(args...)
		contains(t, help, "Usage: settle <command>", "  dev ", "  demo ", "  send ", "  get ", "  list ", "  check ", "  graph ", "  simulate ", "  version ")
		contains(t, strings.Join(strings.Fields(help), " "),
			"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such instance, machine, file or message, 4 event refused, 5 timed out, 6 event ID used for another event, 130 interrupted.")
	}
	for _, command := range []string{"dev", "demo", "send", "get", "list", "history", "watch", "resume", "check", "migrate", "export", "backup", "import", "rearm", "graph", "completion", "simulate", "version"} {
		contains(t, u.must(command, "--help"), "Usage: settle "+command)
	}
	contains(t, u.must("send", "--help"), "http://127.0.0.1:7389", "(settle.fifo)", "$SETTLE_QUEUE_URL")
	contains(t, u.must("get", "--help"), "$SETTLE_TABLE", "--alias=KEY")
}

func TestGraphPrintsChartsAndListsMachines(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	contains(t, u.must("graph", "signup"), "stateDiagram-v2\n", " : SIGN_UP / keepUser\n")
	lines := strings.Split(strings.TrimSpace(u.must("graph")), "\n")
	for i, id := range append([]string{"MACHINE"}, machineIDs(t)...) {
		if i >= len(lines) || strings.Fields(lines[i])[0] != id {
			t.Fatalf("expected %s in line %d of:\n%s", id, i, strings.Join(lines, "\n"))
		}
		if want := "job 1 RELAUNCH, completed, in_progress, queued, waiting"; id == "job" && strings.Join(strings.Fields(lines[i]), " ") != want {
			t.Errorf("expected the version and the events of job, %q, got %q", want, lines[i])
		}
	}
}

func TestVersionNamesTheProgramAndGo(t *testing.T) {
	t.Parallel()
	contains(t, user{t: t}.must("version"), "settle ", ", go1.")
}

// TestFailedWriteOfHelpIsNotAUsageError writes to a file that is open only for reading.
func TestFailedWriteOfHelpIsNotAUsageError(t *testing.T) {
	t.Parallel()
	full, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{"--help", "list --help", "version"} {
		var errOut strings.Builder
		code := command.Run(t.Context(), settle(), command.Process{Out: full, Err: &errOut}, strings.Fields(line))
		if want := "settle: write " + os.DevNull + ": "; code != command.ExitFailed || !strings.HasPrefix(errOut.String(), want) || strings.Contains(errOut.String(), "usage") {
			t.Errorf("%s: expected exit code 1 and %q, got %d and %q", line, want, code, errOut.String())
		}
	}
}

// answering responds to each call with an error.
type answering struct {
	status int
	body   string
}

// Do implements aws.HTTPClient.
func (c answering) Do(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"request-7"}}
	return &http.Response{StatusCode: c.status, Header: header, Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
}

// TestSDKErrorsAreShortenedToTheServicesMessage also checks that failures of AWS itself keep their request ID.
func TestSDKErrorsAreShortenedToTheServicesMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answering
		want string
	}{
		{answering{http.StatusBadRequest, `{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "User: ada is not authorized"}`},
			"until permissions or resources change: AccessDeniedException: User: ada is not authorized\n"},
		{answering{http.StatusBadRequest, `{"__type": "ValidationException"}`}, "settle: reading signup/1 in table settle: ValidationException\n"},
		{answering{http.StatusNotFound, ""}, "operation error DynamoDB: GetItem, https response error StatusCode: 404, RequestID: request-7, api error UnknownError: UnknownError\n"},
		{answering{http.StatusNotImplemented, `{"__type": "InternalServerError", "message": "no"}`},
			"operation error DynamoDB: GetItem, https response error StatusCode: 501, RequestID: request-7, InternalServerError: no\n"},
	} {
		var errOut strings.Builder
		code := command.Run(t.Context(), settle(), command.Process{Err: &errOut, HTTP: c.answering, Endpoint: "http://aws.local"}, []string{"get", "--local", "signup/1"})
		if got := errOut.String(); code != command.ExitFailed || !strings.HasSuffix(got, c.want) {
			t.Errorf("expected exit code 1 and %q, got %d and %q", c.want, code, got)
		}
	}
}
