package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestHistoryIsAListOfTransitions(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: time.Second}, func(u user) {
		for _, event := range []string{"START", "FINISH", "START"} {
			u.must("send", "--local", "work/1", event)
			time.Sleep(time.Minute)
		}
		const want = "01-01 00:00:00.000  START        idle → busy\n" +
			"01-01 00:00:01.000  done.invoke  busy → ready\n" +
			"01-01 00:01:00.000  FINISH       ready → over\n" +
			"01-01 00:02:00.000  START        ignored in over\n"
		if got := u.must("history", "--local", "work/1"); got != want {
			u.t.Errorf("expected\n%s\ngot\n%s", want, got)
		}
		got := u.runAs(command.Process{}, "history", "--local", "work/1")
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		const last = `{"at":"2000-01-01T00:02:00Z","event":"START","from":["over"],"to":["over"],"ignored":true}`
		if len(lines) != 4 || lines[3] != last {
			u.t.Errorf("expected a line each, the last one\n%s\ngot\n%s", last, got.out)
		}
	})
}

func TestWatchPrintsEachTransitionUntilTheEnd(t *testing.T) {
	t.Parallel()
	for name, process := range map[string]command.Process{"text": {StdoutTTY: true}, "json": {}} {
		withWork(t, &work{toil: time.Second}, func(u user) {
			watched := make(chan answer, 1)
			go func() { watched <- u.runAs(process, "watch", "--local", "work/1") }()
			time.Sleep(time.Minute)
			for _, event := range []string{"START", "START", "FINISH"} {
				u.must("send", "--local", "work/1", event)
				time.Sleep(time.Minute)
			}
			got := <-watched
			want := "01-01 00:01:00.000  START        idle → busy\n" +
				"01-01 00:01:01.000  done.invoke  busy → ready\n" +
				"01-01 00:02:00.000  START        ready → busy\n" +
				"01-01 00:02:01.000  done.invoke  busy → ready\n" +
				"01-01 00:03:00.000  FINISH       ready → over\n" +
				"work/1 is done in over\n"
			if name == "json" {
				want = `{"instance":"work/1","at":"2000-01-01T00:01:00Z","event":"START","from":["idle"],"to":["busy"],"revision":1}` + "\n" +
					`{"instance":"work/1","at":"2000-01-01T00:01:01Z","event":"done.invoke.busy","from":["busy"],"to":["ready"],"revision":1}` + "\n" +
					`{"instance":"work/1","at":"2000-01-01T00:02:00Z","event":"START","from":["ready"],"to":["busy"],"revision":2}` + "\n" +
					`{"instance":"work/1","at":"2000-01-01T00:02:01Z","event":"done.invoke.busy","from":["busy"],"to":["ready"],"revision":2}` + "\n" +
					`{"instance":"work/1","at":"2000-01-01T00:03:00Z","event":"FINISH","from":["ready"],"to":["over"],"revision":3}` + "\n"
			}
			if got.code != command.ExitDone || got.out != want || got.err != "work/1 does not exist yet: its first event creates it.\n" {
				u.t.Errorf("%s: expected\n%s\ngot exit code %d, %q and\n%s", name, want, got.code, got.err, got.out)
			}
		})
	}
}

func TestWatchPrintsTheStateFirstAndStopsOnCtrlC(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		for range 30 {
			u.must("send", "--local", "work/1", "COUNT", "what=x", "--wait", "settled")
		}
		ctx, stop := context.WithCancel(u.t.Context())
		var out, errOut syncBuffer
		ended := make(chan int)
		go func() {
			ended <- command.Run(ctx, u.config, command.Process{Out: &out, Err: &errOut, StdoutTTY: true, Endpoint: "http://aws.local", HTTP: u.stack.AWS().HTTPClient},
				[]string{"watch", "--local", "work/1"})
		}()
		time.Sleep(time.Minute)
		for range 25 { // more transitions than the item's history holds, all between two polls of watch
			u.must("send", "--local", "work/1", "COUNT", "what=y")
		}
		time.Sleep(time.Minute)
		stop()
		if code := <-ended; code != command.ExitDone {
			u.t.Errorf("expected exit code 0 after being stopped, got %d and %q", code, errOut.String())
		}
		lines := strings.Split(out.String(), "\n")
		if !strings.HasPrefix(lines[0], "work/1 is in ready, settled, revision ") || !strings.Contains(lines[len(lines)-2], "COUNT        stays in ready") {
			u.t.Errorf("expected its state, and then its transitions, got\n%s", out.String())
		}
		if want := "Some transitions of work/1 were missed here.\n"; errOut.String() != want {
			u.t.Errorf("expected %q, got %q", want, errOut.String())
		}
	})
}

func TestGraphMarksTheStateOfAnInstance(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		chart, marked := u.must("graph", "signup"), u.must("graph", "--local", "signup/1")
		added, ok := strings.CutPrefix(marked, chart)
		if !ok || !strings.HasPrefix(added, "  classDef current ") || !strings.HasSuffix(added, "\n  class unverified__awaiting_uverification current\n") {
			u.t.Errorf("expected the chart and the state, got %q after it in\n%s", added, marked)
		}
		contains(u.t, chart, " as unverified__awaiting_uverification\n")
		if of, by := u.must("graph", "--local", "signup/1", "--format", "xstate"), u.must("graph", "signup", "--format", "xstate"); of != by {
			u.t.Errorf("expected the same for XState, got\n%s", of)
		}
		if got := u.run("graph", "--local", "signup/2"); got.code != command.ExitNotFound {
			u.t.Errorf("expected exit code 3 for an instance that does not exist, got %+v", got)
		}
	})
}

func TestExportWritesALineAnInstance(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		u.put("job/run-1-job-2", "task", `{"type": "settle.wait", "$task": {"token": "do-not-print-me", "state": "Queued", "timeoutSeconds": 600}}`)
		time.Sleep(time.Second)
		u.edit("signup/3", "revision", &types.AttributeValueMemberS{Value: "four"})
		names := func(flags ...string) []string {
			got := u.runAs(command.Process{StdoutTTY: true}, append([]string{"export", "--local"}, flags...)...)
			if got.code != command.ExitDone && !strings.Contains(got.err, "signup/3") || strings.Contains(got.out, "do-not-print-me") {
				u.t.Errorf("export %v: %+v", flags, got)
			}
			var names []string
			for line := range strings.Lines(got.out) {
				var exported struct {
					Instance string
					Revision int
					Snapshot struct {
						Machine string
						Version int
						Value   any
						Context map[string]any
					}
				}
				unmarshal(u.t, []byte(line), &exported)
				if machine, _, _ := strings.Cut(exported.Instance, "/"); exported.Snapshot.Machine != machine || exported.Snapshot.Version != 1 || exported.Revision < 1 || exported.Snapshot.Value == nil || exported.Snapshot.Context == nil {
					u.t.Errorf("expected the snapshot of %s, got %s", exported.Instance, line)
				}
				names = append(names, exported.Instance)
			}
			return slices.Sorted(slices.Values(names))
		}
		for _, c := range []struct {
			flags string
			want  string
		}{
			{"", "job/run-1-job-2 signup/1 signup/2 signup/4"},
			{"--machine signup", "signup/1 signup/2 signup/4"},
			{"--state unverified --consistent", "signup/1 signup/2"},
			{"--status done", "signup/4"},
			{"--tag settled", "job/run-1-job-2 signup/1 signup/2"},
		} {
			if got := strings.Join(names(strings.Fields(c.flags)...), " "); got != c.want {
				u.t.Errorf("export %s: expected %s, got %s", c.flags, c.want, got)
			}
		}
		got := u.run("export", "--local")
		contains(u.t, got.err, "settle: decoding signup/3 in table settle: ", "\nsettle: 1 instance could not be exported: repair the items, or restore them from a backup\n")
		if got.code != command.ExitFailed {
			u.t.Errorf("expected exit code 1, got %d", got.code)
		}
	})
}

func TestMigrateShowsWhatWouldChangeAndWritesNothing(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		for _, id := range []string{"1", "2", "3", "4"} {
			u.must("send", "--local", "work/"+id, "START", "--wait", "rested")
		}
		u.must("send", "--local", "work/1", "COUNT", "what=one")
		u.must("send", "--local", "work/3", "FINISH")
		if got, want := u.must("migrate", "--local", "--dry-run"), "No instance would migrate.\n"; got != want {
			u.t.Errorf("expected %q, got %q", want, got)
		}
		u.edit("work/4", "value", &types.AttributeValueMemberS{Value: "gone"})
		before := u.items()
		type next struct {
			Total int `json:"total"`
		}
		type state = statechart.State[next]
		moved := durable.Host(statechart.Must(statechart.Definition[next]{
			ID: "work", Version: 2, Initial: "rest", Payloads: statechart.Payloads{"FINISH": statechart.NoPayload()},
			States: []state{{ID: "rest", Tags: []string{statechart.Settled}, On: []statechart.Transition[next]{{Event: "FINISH", Target: "over"}}}, {ID: "over", Type: statechart.Final}},
			Migrations: []statechart.Migration{{From: 1, Changes: []statechart.Change{
				statechart.MoveState("idle", "rest"), statechart.MoveState("busy", "rest"), statechart.RenameState("ready", "rest"),
				statechart.MigrateContext(func(c workContext) next { return next{len(c.Counted)} }),
			}}},
		}), durable.MachineConfig{})
		u.config = command.Config{Machines: func(command.Environment) []durable.Machine { return []durable.Machine{moved} }}
		got := u.run("migrate", "--local", "--dry-run")
		contains(u.t, got.out, "MACHINE  FROM  TO  STATE  COUNT\nwork     1     2   over   1\nwork     1     2   ready  2\n",
			"\nwork/3, from version 1 to 2\n  context.total: nothing → 0\n", "  value: \"ready\" → \"rest\"\n")
		if got.code != command.ExitFailed || got.err != "settle: no version of this build can read 1 instance: see settle check --local\n" {
			u.t.Errorf("expected exit code 1 and the breaking instance, got %+v", got)
		}
		var rows []struct {
			State   []string
			Count   int
			Example string
			Changes []struct {
				Path          string
				Before, After any
			}
		}
		unmarshal(u.t, []byte(u.run("migrate", "--local", "--dry-run", "--machine", "work", "-o", "json").out), &rows)
		if len(rows) != 2 || rows[1].Count != 2 || rows[1].State[0] != "ready" || !slices.ContainsFunc(rows[1].Changes, func(c struct {
			Path          string
			Before, After any
		}) bool {
			return c.Path == "value" && c.Before == "ready" && c.After == "rest"
		}) {
			u.t.Errorf("expected the rows, got %+v", rows)
		}
		refused := u.run("migrate", "--local")
		if want := "settle: usage: expected --dry-run: instances migrate automatically, each with its next event, and there is nothing to start\n"; refused.code != command.ExitUsage || refused.err != want {
			u.t.Errorf("expected exit code 2 and %q, got %+v", want, refused)
		}
		if after := u.items(); !maps.Equal(after, before) {
			u.t.Errorf("expected unchanged items, got\n%v\nafter\n%v", after, before)
		}
	})
}

func TestAnswersAreJSONWithoutATerminal(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		for _, line := range []string{
			"send --local signup/1 RESEND", "get --local signup/1", "list --local", "list --local --consistent", "graph", "history --local signup/1",
			"dlq list --local", "resume --local signup/1", "rearm --local signup/1", "check --local", "migrate --local --dry-run", "export --local",
			"dlq redrive --local --all", "dlq drop --local --all --yes",
		} {
			piped := u.runAs(command.Process{}, strings.Fields(line)...)
			decoder := json.NewDecoder(strings.NewReader(piped.out))
			for decoder.More() {
				var value any
				if err := decoder.Decode(&value); err != nil {
					u.t.Errorf("%s: expected JSON, got %v in %q", line, err, piped.out)
					break
				}
			}
			if piped.code != command.ExitDone || piped.out == "" {
				u.t.Errorf("%s: expected exit code 0 and JSON, got %+v", line, piped)
			}
			if strings.HasPrefix(line, "export") {
				continue // export always prints lines of JSON.
			}
			if text := u.runAs(command.Process{}, append(strings.Fields(line), "-o", "text")...); json.Valid([]byte(text.out)) || text.code != command.ExitDone {
				u.t.Errorf("%s -o text: expected text, got %+v", line, text)
			}
		}
	})
}

func TestColorIsOnlyForTerminals(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		plain := u.must("list", "--local")
		colored := u.runAs(command.Process{StdoutTTY: true, Color: true}, "list", "--local").out
		contains(u.t, colored, "\x1b[1msignup/1\x1b[0m  \x1b[32munverified.awaiting_verification\x1b[0m  active  0s ago  deadline, in 24h00m\n")
		without := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[32m", "").Replace(colored)
		if without != plain {
			u.t.Errorf("expected the same columns, got\n%s\nand\n%s", without, plain)
		}
	})
}
