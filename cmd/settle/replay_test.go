package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// switches returns the command of a build whose machine switches to `target`. Another build uses another target.
func switches(id, target string) command.Config {
	type lamp struct{}
	settled := []string{statechart.Settled}
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(statechart.Must(statechart.Definition[lamp]{
			ID: id, Version: 1, Initial: "off", Payloads: statechart.Payloads{"ON": statechart.NoPayload(), "DIM": statechart.NoPayload()},
			States: []statechart.State[lamp]{
				{ID: "off", Tags: settled, On: []statechart.Transition[lamp]{{Event: "ON", Target: target}, {Event: "DIM", Target: "dim"}}},
				{ID: "on", Tags: settled, On: []statechart.Transition[lamp]{{Event: "DIM", Target: "dim"}}}, {ID: "dim", Tags: settled, On: []statechart.Transition[lamp]{{Event: "ON", Target: "on"}}},
			},
		}), durable.MachineConfig{})}
	}}
}

func TestARecordingOfDevShowsTheDifferencesOfAnotherBuild(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) string {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	dev := startDevOf(t, switches("lamp", "on"), "--record", path("commits"))
	for _, line := range []string{"lamp/1 ON", "lamp/2 ON", "lamp/3 DIM", "lamp/1 DIM"} {
		if code, errOut := dev.settle(t, append([]string{"send", "--local"}, strings.Fields(line)...)...); code != command.ExitDone {
			t.Fatalf("settle send %s: %d, %s", line, code, errOut)
		}
		dev.screen.await(t, strings.Fields(line)[0]) // dev prints the transition.
	}
	dev.end(t)

	same, other := user{t: t, config: switches("lamp", "on")}, user{t: t, config: switches("lamp", "dim")}
	recorded := same.run("record", path("commits"))
	if want := "3 runs recorded, with 7 steps.\n"; recorded.code != command.ExitDone || recorded.err != want {
		t.Fatalf("expected %q, got %+v", want, recorded)
	}
	recording := write("recording", recorded.out)
	if got, want := same.must("replay", recording), "MACHINE  VERSION  SAME  DIFFER\nlamp     1        3     0\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const table = "MACHINE  VERSION  SAME  DIFFER\nlamp     1        1     2\n\nlamp/1 and 1 more of the same row differ\n  ON in off: state: expected on, got dim\n"
	const failed = "settle: 2 of 3 runs differ on this build: change the build, or accept the differences with --accept\n"
	if got := other.run("replay", recording); got.out != table || got.err != failed || got.code != command.ExitFailed {
		t.Errorf("got\n%+v\nwant\n%s%s", got, table, failed)
	}
	differences := other.run("replay", recording, "-o", "json")
	accepted := write("accepted", differences.out)
	none := write("none", same.must("replay", recording, "-o", "json"))
	// The replay of lamp/1 skips its last step.
	const partial = "MACHINE  VERSION  SAME  DIFFER  PARTIAL\nlamp     1        2     0       1\n"
	for _, files := range [][2]string{{accepted, none}, {none, accepted}} {
		if got := other.run("replay", recording, "--accept", files[0], "--accept", files[1]); got.out != partial || got.code != command.ExitDone || differences.code != command.ExitFailed {
			t.Errorf("expected exit code 0 with all differences accepted, got %+v", got)
		}
	}
	left := other.run("record", path("commits"))
	if want := "settle: 2 runs left out: ON in off: expected on as recorded, got dim\n1 run recorded, with 2 steps.\n"; left.err != want || left.code != command.ExitDone {
		t.Errorf("expected %q, got %+v", want, left)
	}

	stranger := user{t: t, config: switches("torch", "on")}
	for _, c := range []struct {
		got  answer
		code int
		want string
	}{
		{stranger.run("replay", recording), command.ExitUsage, "the recording belongs to another project: expected instances of torch, got only others"},
		{stranger.run("record", path("commits")), command.ExitFailed, "nothing to replay: record for longer, with the build that is deployed"},
		{same.run("replay", path("commits")), command.ExitUsage, path("commits") + ": wrong format: expected a recording of settle record, got another file"},
		{same.run("replay", write("cut", strings.Join(strings.SplitAfter(recorded.out, "\n")[:4], ""))), command.ExitUsage, path("cut") + ": wrong format: line 5: expected another run, or a last line with the number of runs, got the end of the file: it is cut off"},
		{same.run("replay", recording, "--accept", recording), command.ExitUsage, recording + ": wrong format: expected the output of settle replay -o json, got another file"},
		{same.run("record", recording), command.ExitUsage, "expected a log with recorded commits, got none: set SETTLE_RECORD on the consumer, or use settle dev --record"},
		{same.run("record", path("missing")), command.ExitNotFound, "missing: no such file or directory"},
		{same.run("dev", "--record", path("commits"), "--consumer", "x"), command.ExitUsage, "--record: expected no --consumer with it"},
	} {
		if c.got.code != c.code || !strings.Contains(c.got.err, c.want) {
			t.Errorf("expected exit code %d and %q, got %d and %q", c.code, c.want, c.got.code, c.got.err)
		}
	}
}
