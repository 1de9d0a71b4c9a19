package recording_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/recording"
)

func indented(t *testing.T, line string) string {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(line), "", "    "); err != nil {
		t.Fatal(err)
	}
	return pretty.String()
}

// replayed replays the runs on the machine with a change.
func replayed(t *testing.T, change string, found []recording.Run, accepted ...recording.Row) *recording.Replay {
	t.Helper()
	replay := recording.NewReplay(orders(t, change), accepted)
	for _, run := range found {
		if err := replay.Add(run); err != nil {
			t.Fatal(err)
		}
	}
	return replay
}

func TestAReplayShowsEachKindOfDifference(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.commit(noting)
	c.commit(paying, "done R1")
	c.commit(shipping)
	c.begin("order/2")
	c.commit(noting)
	c.commit("timer")
	c.begin("order/3") // The first commit of this instance is lost, so its run has a base.
	before := c.log.Len()
	c.commit(paying, "failed")
	c.log.Truncate(before)
	c.commit(noting)
	c.commit(paying)
	c.commit("failed")
	found := c.played()
	for change, want := range map[string][]string{
		"":                 nil,
		"another path":     {"PAY in open: state: expected charging, got open (ignored)"},
		"another receiver": {`done.invoke.charge in charging: effects.send PACK.to: expected "warehouse/1", got "warehouse/2"`},
		"another effect":   {"done.invoke.charge in charging: effects: expected send PACK, got send PACK, emit paid"},
		"another output":   {"SHIP in paid: output.amount: expected 5, got 6"},
		"another status": {
			"SHIP in paid: status: expected done, got active",
			`SHIP in paid: output: expected {"amount":5,"email":"ada@example.com","receipt":"R1"}, got nothing`,
		},
		"another service": {"PAY in open: services: expected charge, got charge, audit (charge)"},
		"no event":        {`SHIP in paid: event: expected shipped, got undeclared event type: chart order has no event "SHIP"; it declares NOTE, PAY`},
		"no service": {
			"PAY in open: services: expected charge, got none",
			"done.invoke.charge in charging: event: expected paid, got done.invoke.charge: the instance does not wait for it",
			"error.invoke.charge in charging: event: expected open, got error.invoke.charge: the instance does not wait for it",
		},
		"no timer": {
			"settle.start in no state: effects: expected schedule open expiry, got none",
			"PAY in open: ended timers: expected open expiry, got none",
			`after expiry in open: event: expected expired, got timer "after expiry": the instance does not wait for it`,
			` in : start: expected a build that can read the instance, got unreadable snapshot of chart order: timer 3.0 belongs to "open" after "expiry", which is not a timer of that state in this version; raise Version, and add RenameTimer("open", "expiry", ...) or DropTimer("open", "expiry"), or host version 1 too`,
		},
		"another result": {"done.invoke.charge in charging: event: expected paid, got wrong payload: the result of service charge of chart order: expected a whole number of 64 bits, got an object"},
		"no state": {
			"settle.start in no state: state: expected open, got begun",
			` in : start: expected a build that can read the instance, got unreadable snapshot of chart order: this version has no state "open"; raise Version, and add RenameState("open", ...) or MoveState("open", ...), or host version 1 too`,
		},
	} {
		var got []string
		for _, row := range replayed(t, change, found).Rows() {
			got = append(got, fmt.Sprintf("%s in %s: %s: expected %s, got %s", row.Event, row.State, row.What, row.Expected, row.Got))
		}
		if text(t, got) != text(t, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", change, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The new build no longer defers SHIP. Its loop ignores the deferred SHIP of the base, and then applies PAY.
func TestDeferredEventsAreReplayedAsInTheLoop(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.commit(paying, "failed")
	c.log.Reset()
	c.commit(shipping)
	c.commit(paying, "done R1")
	found := c.played()
	rows := replayed(t, "no deferral", found).Rows()
	if len(rows) != 1 || rows[0].Event != "done.invoke.charge" || rows[0].Expected != "shipped" || rows[0].Got != "paid" {
		t.Errorf("expected the new build to stay in paid, got %+v", rows)
	}
	step := recording.Step{Event: recording.Event{Type: "settle.replay", At: c.now, To: []string{"open"}}}
	found[0].Steps = append([]recording.Step{step}, found[0].Steps...)
	found[0].Steps[2].To = []string{"paid"}
	if err := found[0].Play(orders(t, "no deferral"), 0); err != nil {
		t.Errorf("expected a build that has recorded the replay to play it, got %v", err)
	}
}

func TestEqualDifferencesAreOneRow(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	for i := range 100 {
		c.begin(fmt.Sprint("order/", i))
		c.commit(strings.Replace(paying, "5", fmt.Sprint(i), 1), "done R")
		c.commit(shipping)
	}
	for change, accepted := range map[string]recording.Count{"another output": {Same: 100}, "an error": {Partial: 100}} {
		replay := replayed(t, change, c.played())
		rows := replay.Rows()
		if len(rows) != 1 || rows[0].Runs != 100 || rows[0].Example != "order/0" {
			t.Fatalf("%s: expected one row with 100 runs and the first example, got %+v", change, rows)
		}
		if got := replay.Counts(); len(got) != 1 || got[0] != (recording.Count{Machine: "order", Version: 1, Differ: 100}) {
			t.Errorf("%s: got the counts %+v", change, got)
		}
		rows[0].Got = strings.ReplaceAll(rows[0].Got, "0", "12") // the data of another instance
		again := replayed(t, change, c.played(), rows...)
		if got := again.Counts(); len(again.Rows()) != 0 || got[0].Same != accepted.Same || got[0].Partial != accepted.Partial {
			t.Errorf("%s: expected no row after the row was accepted, got %+v and %+v", change, again.Rows(), got)
		}
	}
}

func TestAnotherProjectIsForeign(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.commit(paying)
	if found := c.played(); replayed(t, "", found).IsForeign() || !replayed(t, "another project", found).IsForeign() {
		t.Error("expected only the build without the machine to be foreign")
	}
}

func TestARunThatTakesAnotherPathIsNotRecorded(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.commit(paying)
	run := runs(t, c.log.String())[0]
	err := run.Play(orders(t, "another path"), 0)
	if want := "PAY in open: expected charging as recorded, got open (ignored)"; err == nil || err.Error() != want {
		t.Errorf("expected %s, got %v", want, err)
	}
}

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.whole()
	found := c.played()
	var file bytes.Buffer
	writer, err := recording.NewWriter(&file)
	for _, run := range found {
		err = errors.Join(err, writer.Add(run))
	}
	if err = errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	read := func(file string) (all []recording.Run, err error) {
		for run, err := range recording.Runs(strings.NewReader(file)) {
			if err != nil {
				return nil, err
			}
			all = append(all, run)
		}
		return all, nil
	}
	whole := file.String()
	if got, err := read(whole); err != nil || text(t, got) != text(t, found) {
		t.Errorf("got %s and %v, want %s", text(t, got), err, text(t, found))
	}
	lines := strings.SplitAfter(whole, "\n")
	for wrong, want := range map[string]string{
		"":                           "wrong format: expected a recording of settle record, got another file",
		`{"machine": "order"}`:       "wrong format: expected a recording of settle record, got another file",
		`{"settle_recording": 2}`:    "wrong format: expected a recording in the format 1, got the format 2: ",
		whole[:len(whole)/2]:         "wrong format: line 2: expected a complete run of an instance, got one that is cut off or damaged: ",
		lines[0] + `{"instance": 7}`: "wrong format: line 2: expected a complete run of an instance, got one that is cut off or damaged: ",
		lines[0] + lines[1]:          "wrong format: line 3: expected another run, or a last line with the number of runs, got the end of the file: it is cut off",
		lines[0] + lines[2]:          "wrong format: line 2: expected a last line with the number 0, got 1: runs are missing",
		whole + whole:                "wrong format: line 3: expected the end of the recording, got another line",
	} {
		if _, err := read(wrong); err == nil || !errors.Is(err, recording.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q of %.60q, got %v", want, wrong, err)
		}
	}
}
