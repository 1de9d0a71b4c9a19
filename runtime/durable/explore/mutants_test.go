package explore_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutantsFlag = flag.String("mutants", "", "a regular expression: TestMutants builds the loop with each defect whose name it matches")

// mutant is a deliberate defect: a text of a file, and what it is replaced by; and the scenario in which the search finds a
// violation of a kind that it does not find without the defect.
type mutant struct {
	name, scenario, finds string
	file, old, new        string
}

// The files of the mutants.
const (
	portsFile = "explore/ports_test.go"
	tryFile   = "try.go"
	loopFile  = "loop.go"
	turnFile  = "turn.go"
)

var mutants = []mutant{
	{"unconditional write", "plain", "taken back", portsFile, `was.revision != record.Revision-1`, `was.revision < 0`},
	{"alias granted twice", "two aliases", "alias of another", portsFile, `case !exists || has.released && !mine`, `case !exists || !mine`},
	{"no watermark", "plain", "applied twice", tryFile, `return d.SequenceNumber != "" && compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) <= 0`, `return false`},
	{"one watermark for all queues", "queues", "applied twice", tryFile, `	if compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) > 0 {`, `	d.Queue = "all"
	if compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) > 0 {`},
	{"unsettled instances take events", "service: then", "applied while unsettled", tryFile, `	if t.instance == nil || t.instance.Settled() {
		return false, nil
	}`, `	if t.instance == nil || t.record.Revision > 0 {
		return false, nil
	}`},
	{"outbox overwritten instead of drained", "send", "effect lost", loopFile, `	if err := t.dispatch(ctx); err != nil {
		return 0, err
	}

	applied := 0`, `	t.record.Outbox = nil

	applied := 0`},
	{"acknowledge before dispatch", "send", "owed for ever", loopFile, `	if dispatchErr := t.dispatch(ctx); dispatchErr != nil {
		return 0, dispatchErr
	}`, `	if dispatchErr := t.dispatch(ctx); dispatchErr != nil {
		return applied, nil
	}`},
	{"failures acknowledged", "plain", "event lost", loopFile, `			l.delay(ctx, rest, err)
			return rest`, `			l.delay(ctx, rest, err)
			return nil`},
	{"dispatch before commit", "send", "performed before its commit", turnFile, `	if err := t.loop.ports.Store.Commit(ctx, next); err != nil {`, `	for _, effect := range next.Outbox {
		_ = t.perform(ctx, effect)
	}
	if err := t.loop.ports.Store.Commit(ctx, next); err != nil {`},
	{"a conflict taken for success", "plain", "event lost", turnFile, `	if err := t.loop.ports.Store.Commit(ctx, next); err != nil {`, `	if err := t.loop.ports.Store.Commit(ctx, next); err != nil && !errors.Is(err, ErrConflict) {`},
	{"producers' repeats not recognised", "repeat", "applied twice", turnFile, `event.ID != "" && slices.Contains(t.record.RecentEvents, event.ID)`, `event.ID == "-"`},
	{"no commit between services", "two services", "service runs again", "services.go", `	if t.finished {
		err = t.commit(ctx)
	} else`, ``},
	{"sends without ID", "send", "applied twice", "effects.go", `return withKey(event, "$id", id)`, `return event, nil`},
	{"stops of children get lost", "child is stopped", "effect lost", "child.go", `		form = toChild{Type: stopEvent, Parent: t.self(effect.Child)}`, `		return nil`},
	{"ends of children get lost", "child ends", "effect lost", "parent.go", `	end := childEnd{Type: childEvent, Incarnation: t.record.Parent.Incarnation,`, `	if t.repeats {
		return nil
	}
	end := childEnd{Type: childEvent, Incarnation: t.record.Parent.Incarnation,`},
	{"executions not looked after", "execution", "waits for ever", "watch.go", `	if end == nil {`, `	if end == nil && ctx != nil {
		return nil
	}
	if end == nil {`},
	{"ends of executions told again", "execution", "waits for ever", "execution.go", `return e.Name == end.Name })
		t.dirty = true`, `return e.Name == "-" })
		t.dirty = true`},
}

// TestMutants builds the loop, or the ports, with each defect, and expects that the search finds it.
func TestMutants(t *testing.T) {
	t.Parallel()
	if *mutantsFlag == "" {
		t.Skip("run by make explore-mutants")
	}
	chosen, err := regexp.Compile(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if !chosen.MatchString(m.name) {
			continue
		}
		output, err := m.explore(t, t.TempDir())
		found := regexp.MustCompile(regexp.QuoteMeta(m.scenario+": "+m.finds) + ": .*").FindString(output)
		if found == "" {
			t.Errorf("%s: expected %q in the scenario %s, got: %v\n%.2000s", m.name, m.finds, m.scenario, err, output)
			continue
		}
		t.Logf("%s: %.200s", m.name, found)
	}
}

// TestTheTextsOfMutantsAreThere keeps make explore-mutants going: it replaces each text in a file.
func TestTheTextsOfMutantsAreThere(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		if _, _, err := m.source(); err != nil {
			t.Error(err)
		}
	}
}

// source returns the path and the text of the file that the defect is put into.
func (m *mutant) source() (path, text string, err error) {
	if path, err = filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file))); err != nil {
		return "", "", err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(body), m.old); n != 1 {
		return "", "", fmt.Errorf("%s: expected the text once in %s, got it %d times:\n%s", m.name, m.file, n, m.old)
	}
	return path, string(body), nil
}

// explore runs the search of the mutant's scenario with the defect.
func (m *mutant) explore(t *testing.T, folder string) (output string, err error) {
	t.Helper()
	path, source, err := m.source()
	if err != nil {
		t.Fatal(err)
	}
	broken, overlay, binary := filepath.Join(folder, "broken.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, "explore.test")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{broken: strings.Replace(source, m.old, m.new, 1), overlay: string(replaced)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: building: %v\n%s", m.name, err, output)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run", "^TestExplore$", "-scope=short", "-scenario="+m.scenario)
	got, err := run.CombinedOutput()
	return string(got), err
}
