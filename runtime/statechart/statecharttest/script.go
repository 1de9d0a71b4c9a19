package statecharttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/settle-run/settle/runtime/statechart"
)

// Setup holds the arguments of a script's start command. newChart must use every argument.
type Setup struct {
	words    map[string][]string
	outcomes map[string]*Outcomes
	used     map[string]bool
	err      error
}

// Words returns the words of an argument, for a fake with more outcomes than success and failure: `start job=(running,
// success)` has two words under "job".
func (s *Setup) Words(name string) []string {
	s.used[name] = true
	return s.words[name]
}

// Outcomes returns the outcomes of an argument: `start mail=(fail, ok)` lists them under "mail". Without the argument,
// all calls succeed.
func (s *Setup) Outcomes(name string) *Outcomes {
	s.used[name] = true
	if s.outcomes[name] == nil {
		outcomes, err := NewOutcomes(s.words[name]...)
		if err != nil {
			s.err = errors.Join(s.err, fmt.Errorf("%s: %w", name, err))
			outcomes = &Outcomes{}
		}
		s.outcomes[name] = outcomes
	}
	return s.outcomes[name]
}

// RunScripts plays every file in the directory as a script in a parallel subtest. It ignores folders. The package
// documentation describes the format. newChart returns the chart with new fakes for each start command. The returned
// coverage is complete at the end of the test. Call its Require to enforce it.
func RunScripts[C any](t *testing.T, dir string, newChart func(*Setup) *statechart.Chart[C]) *Coverage {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("reading scripts: %v", err)
	}
	entries = slices.DeleteFunc(entries, fs.DirEntry.IsDir)
	if len(entries) == 0 {
		t.Fatalf("expected scripts in %s, found none", dir)
	}
	coverage := &Coverage{}
	coverage.plan(len(entries))
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			s := &script[C]{newChart: newChart, coverage: coverage}
			datadriven.RunTest(t, filepath.Join(dir, entry.Name()), s.run)
			coverage.finish()
		})
	}
	return coverage
}

type script[C any] struct {
	newChart func(*Setup) *statechart.Chart[C]
	coverage *Coverage
	player   *Player[C]
	// shown is the context at the last context command.
	shown map[string]json.RawMessage
}

// run runs one command and returns its output.
func (s *script[C]) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if d.Cmd == "start" {
		s.start(t, d)
		return s.player.Trace()
	}
	if s.player == nil {
		d.Fatalf(t, "expected start before %s", d.Cmd)
	}
	s.player.t = t
	switch d.Cmd {
	case "send":
		return s.send(t, d)
	case "advance":
		return s.advance(t, d)
	case "state":
		return s.state()
	case "context":
		return s.context(t, d)
	case "child":
		return s.child(t, d)
	default:
		d.Fatalf(t, "expected start, send, advance, child, state or context, got %s", d.Cmd)
		return ""
	}
}

func (s *script[C]) start(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	setup := &Setup{words: map[string][]string{}, outcomes: map[string]*Outcomes{}, used: map[string]bool{}}
	for _, arg := range d.CmdArgs {
		setup.words[arg.Key] = arg.Vals
	}
	chart := s.newChart(setup)
	if setup.err != nil {
		d.Fatalf(t, "start: %v", setup.err)
	}
	for _, arg := range d.CmdArgs {
		if !setup.used[arg.Key] {
			d.Fatalf(t, "start: unknown argument %q; the test accepts %s", arg.Key, cmp.Or(strings.Join(slices.Sorted(maps.Keys(setup.used)), ", "), "none"))
		}
	}
	input, err := chart.DecodeInput([]byte(d.Input))
	if err != nil {
		d.Fatalf(t, "start: %v; write the input as JSON on the lines below the command", err)
	}
	s.player = Play(t, chart, Config{Coverage: s.coverage, Input: input})
	s.shown = s.contextKeys(t)
}

func (s *script[C]) send(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if len(d.CmdArgs) == 0 || len(d.CmdArgs[0].Vals) > 0 {
		d.Fatalf(t, "expected an event type after send, as in: send VERIFY code=1234")
	}
	payload := map[string]json.RawMessage{}
	if d.Input != "" {
		if err := json.Unmarshal([]byte(d.Input), &payload); err != nil {
			d.Fatalf(t, "expected the payload as a JSON object: %v", err)
		}
	}
	for _, arg := range d.CmdArgs[1:] {
		key, value, err := field(arg)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		payload[key] = value
	}
	body, err := encode(d.CmdArgs[0].Key, payload)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return s.show(s.player.Try(body))
}

// field parses one key of a payload: key=text, key=(text, text) or key:=json.
func field(arg datadriven.CmdArg) (key string, value json.RawMessage, err error) {
	if key, isJSON := strings.CutSuffix(arg.Key, ":"); isJSON {
		text := strings.Join(arg.Vals, ", ")
		if !json.Valid([]byte(text)) {
			return "", nil, fmt.Errorf("expected JSON after %s:=, got %q", key, text)
		}
		return key, json.RawMessage(text), nil
	}
	var text any = arg.Vals
	switch len(arg.Vals) {
	case 0:
		return "", nil, fmt.Errorf("expected %s=text, %s=(text, text) or %s:=json", arg.Key, arg.Key, arg.Key)
	case 1:
		text = arg.Vals[0]
	}
	value, err = json.Marshal(text)
	return arg.Key, value, err
}

func (s *script[C]) advance(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if len(d.CmdArgs) != 1 {
		d.Fatalf(t, "expected one duration after advance, as in: advance 5m")
	}
	duration, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil || duration < 0 {
		d.Fatalf(t, "expected a duration such as 5m after advance, got %q", d.CmdArgs[0].Key)
	}
	return s.show(s.player.advance(duration))
}

// show returns the trace and the error of the last call.
func (s *script[C]) show(err error) string {
	if err != nil {
		return s.player.Trace() + "error: " + err.Error() + "\n"
	}
	return s.player.Trace()
}

func (s *script[C]) state() string {
	p := s.player
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", p.since(p.now), p.snapshot.Status, p.State())
	if tags := p.snapshot.Tags(); len(tags) > 0 {
		fmt.Fprintf(&b, "  tagged %s\n", strings.Join(tags, ", "))
	}
	if next := p.snapshot.NextEvents(); len(next) > 0 {
		fmt.Fprintf(&b, "  takes %s\n", strings.Join(next, ", "))
	}
	for _, timer := range p.snapshot.Timers {
		fmt.Fprintf(&b, "  timer %s %s at %s\n", timer.ID, timerName(timer), p.since(timer.At))
	}
	for _, child := range p.snapshot.Children {
		fmt.Fprintf(&b, "  child %s %s of machine %s\n", child.Key, child.ID, child.Machine)
	}
	for _, event := range p.snapshot.Deferred {
		fmt.Fprintf(&b, "  deferred %s\n", event.Event)
	}
	return b.String()
}

func (s *script[C]) context(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	now := s.contextKeys(t)
	keys := maps.Clone(now)
	maps.Copy(keys, s.shown)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if len(d.CmdArgs) > 0 && !d.HasArg(key) || string(s.shown[key]) == string(now[key]) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s -> %s\n", key, orNone(s.shown[key]), orNone(now[key]))
	}
	s.shown = now
	if b.Len() == 0 {
		return "unchanged\n"
	}
	return b.String()
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "none"
	}
	return string(value)
}

// contextKeys returns the context's JSON by key.
func (s *script[C]) contextKeys(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := json.Marshal(s.player.snapshot.Context)
	if err != nil {
		t.Fatalf("marshalling the context: %v", err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return map[string]json.RawMessage{"context": text} // not an object: shown as a whole
	}
	return keys
}
