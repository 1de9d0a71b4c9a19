package main

import (
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// slowly returns a process on a terminal with the given number of columns. Each of its AWS calls takes 1.5 seconds.
func (u user) slowly(columns int) command.Process {
	process := u.faultily(func(string, string) error {
		time.Sleep(1500 * time.Millisecond)
		return nil
	}, nil)
	process.StderrTTY, process.Columns = true, columns
	return process
}

func TestProgressIsShownEverySecond(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		for _, c := range []struct{ line, want string }{
			{"check", "\r0 instances checked, 1s\x1b[K\r\x1b[K"},
			{"migrate --dry-run", "\r0 instances read, 1s\x1b[K\r\x1b[K"},
			{"rearm --all --dry-run", "\r0 instances done, 1s\x1b[K\r\x1b[K"},
			{"list --consistent --status stopped", "\r0 instances found, 1s\x1b[K\r\x1b[K"},
			{"get signup/1", "\rreading signup/1, 1s\x1b[K\r\x1b[K"},
			{"history signup/1", "\rreading signup/1, 1s\x1b[K\r\x1b[K"},
			{"send signup/1 RESEND", "\rsending to signup/1, 1s\x1b[K\rsending to signup/1, 2s\x1b[K\rsending to signup/1, 3s\x1b[K\r\x1b[K"},
			{"dlq list", "\rlooking for settle-dlq.fifo, 1s\x1b[K\r0 events received, 2s\x1b[K\r0 events received, 3s\x1b[K\r0 events received, 4s\x1b[K\r0 events received, 5s\x1b[K\r\x1b[K"},
			{"dlq drop --all --yes", "\rlooking for settle-dlq.fifo, 1s\x1b[K\r0 events dropped, 2s\x1b[K\r0 events dropped, 3s\x1b[K\r0 events dropped, 4s\x1b[K\r0 events dropped, 5s\x1b[K\r0 events dropped, 6s\x1b[K\r0 events dropped, 7s\x1b[K\r\x1b[K"},
		} {
			got := u.runAs(u.slowly(80), append(strings.Fields(c.line), "--local")...)
			if got.code != command.ExitDone || got.err != c.want {
				u.t.Errorf("%s: expected the progress %q, got %+v", c.line, c.want, got)
			}
		}
		byIndex := u.runAs(u.slowly(80), "list", "--local")
		contains(u.t, byIndex.err, "\r0 instances found, 1s\x1b[K\r0 instances found, 2s\x1b[K", "\r\x1b[KFound by the index")
	})
}

func TestProgressIsErasedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		// Standard output and standard error go to the same terminal.
		both := &syncBuffer{}
		process := u.slowly(80)
		process.Out, process.Err = both, both
		process.Endpoint = "http://aws.local"
		if code := command.Run(u.t.Context(), u.config, process, []string{"export", "--local", "--machine", "job"}); code != command.ExitDone {
			u.t.Fatalf("expected exit code 0, got %d and %q", code, both.String())
		}
		line, ok := strings.CutPrefix(both.String(), "\r0 instances exported, 1s\x1b[K\r\x1b[K{\"instance\":\"job/run-1-job-2\"")
		if !ok || strings.Contains(line, "\r") {
			u.t.Errorf("expected the line of the instance in place of the progress, got %q", both.String())
		}
	})
}

func TestProgressIsCutAtTheWidthOfTheTerminal(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 10 * time.Second}, func(u user) {
		got := u.runAs(command.Process{StdoutTTY: true, StderrTTY: true, Columns: 20}, "send", "--local", "work/1", "START", "--wait", "settled")
		for part := range strings.SplitSeq(got.err, "\r") {
			if text := strings.TrimSuffix(part, "\x1b[K"); len(text) >= 20 {
				u.t.Errorf("expected less than 20 columns, got %q", text)
			}
		}
		contains(u.t, got.err, "\rwaiting: work/1 doe\x1b[K")
	})
}

func TestProgressOnADumbTerminalIsALineEveryTenSeconds(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 25 * time.Second}, func(u user) {
		got := u.runAs(command.Process{StdoutTTY: true, StderrTTY: true, Plain: true}, "send", "--local", "work/1", "START", "--wait", "settled")
		lines := strings.Split(strings.TrimSpace(got.err), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], ", 10s") || !strings.HasSuffix(lines[1], ", 20s") || strings.ContainsAny(got.err, "\r\x1b") {
			u.t.Errorf("expected two lines in 25 s and no escapes, got %q", got.err)
		}
	})
}

func TestProgressCounts(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		process := u.slowly(80)
		got := u.runAs(process, "dlq", "redrive", "--local", "--instance", "work/1")
		contains(u.t, got.err, "\r1 event redriven, ", "\r2 events redriven, ", "\r3 events redriven, ")
		if got.code != command.ExitDone || strings.Contains(got.err, "5 events") {
			u.t.Errorf("expected the four events of work/1, got %+v", got)
		}
	})
}
