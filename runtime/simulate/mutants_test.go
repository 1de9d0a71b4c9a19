package simulate_test

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

var simulateMutants = flag.String("simulate.mutants", "", "build the runtime with each defect whose name matches this regular `expression` (TestMutants)")

// mutant is a deliberate defect of the runtime: a text in a file, and its replacement.
type mutant struct {
	// name describes the defect. `breaks` names the promise that the defect breaks.
	name, breaks   string
	file, old, new string
}

var mutants = []mutant{
	{"no watermark", "applied once", "runtime/durable/step.go",
		`return d.SequenceNumber != "" && instances.CompareSequence(d.SequenceNumber, r.Watermark[d.Queue]) <= 0`, `return false`},
	{"one watermark for all queues", "never dropped", "runtime/durable/step.go",
		`	return d.SequenceNumber != "" && instances.CompareSequence(d.SequenceNumber, r.Watermark[d.Queue]) <= 0`, `	for _, number := range r.Watermark {
		if instances.CompareSequence(d.SequenceNumber, number) <= 0 {
			return true
		}
	}
	return false`},
	{"outbox overwritten instead of drained", "effects at least once", "runtime/durable/turn.go",
		`	if err := t.drain(ctx); err != nil {
		return 0, err
	}
`, `	t.draft.Record.Outbox, t.stored.Record.Outbox = nil, nil
`},
	{"dispatch before commit", "effects after their commit", "runtime/durable/turn.go",
		`	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`, `	for i := range next.Outbox {
		if batch, messages, err := t.batch(next.Outbox[i : i+1]); err == nil {
			t.performBatch(ctx, batch, messages)
		}
	}
	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`},
	{"unconditional write", "no overwriting of newer state", "runtime/dynamostore/store.go",
		`aws.String("#revision = :previous")`, `aws.String("#revision >= :previous OR #revision < :previous")`},
	{"acknowledge before dispatch", "effects at least once", "runtime/durable/turn.go",
		`		if err := t.dispatch(ctx, false); err != nil {
			return done, err
		}`, `		if t.dispatch(ctx, false) != nil {
			return done + applied, err
		}`},
	{"no commit between services", "a finished service never runs again", "runtime/durable/services.go",
		`	if s.unstored {
		err = s.commit(ctx)
	} else if len(next) > 0 {`, `	if len(next) > 0 {`},
	{"timer ID not checked", "a stale timer does nothing", "runtime/durable/step.go",
		`	if incarnationOf(body) != t.incarnation() {
		return false
	}`, `	if true {
		return true
	}`},
	{"timers fire early", "no timer before its time", "runtime/durable/messages.go",
		`			return timer.At.Sub(t.loop.config.Now())`, `			return min(0, timer.At.Sub(t.loop.config.Now()))`},
	{"alias claimed twice", "an alias belongs to one instance", "runtime/dynamostore/alias.go",
		`aws.String("attribute_not_exists(#instance) OR attribute_exists(#released) OR #of = :of AND #created_at < :created_at")`,
		`aws.String("attribute_not_exists(#instance) OR attribute_exists(#released) OR #of <> :of OR #of = :of AND #created_at < :created_at")`},
	{"retry budget not counted", "a service that kills the process uses up its attempts", "runtime/durable/services.go",
		`	if len(next) > 0 && (isRedelivery || t.hasOtherQueue(s.delivery)) {`, `	if len(next) > 1<<20 {`},
	{"token ledger ignored", "a task's answer is not mistaken for an expiry", "runtime/sfncallback/callback.go",
		`	case isOver(err) && !isInvalid(err) && (repeat || unsure || token.Execution != ""):
		return c.reconcile(ctx, token, answer)`, `	case unsure && ctx == nil:
		return nil`},
	{"answers given before they are stored", "answers after their commit", "runtime/durable/turn.go",
		`	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`, `	for _, token := range next.Tokens {
		if !waits(token) {
			_ = t.loop.ports.Tokens.Answer(ctx, token, *token.Answer, false)
		}
	}
	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`},
	{"producers' repeats not recognised", "applied once", "runtime/durable/duplicates.go",
		`	if eventID != "" {
		for _, known`, `	if eventID == "-" {
		for _, known`},
	{"sends without ID", "a send takes effect once", "runtime/durable/effects.go",
		`	body, err := withKeys(effect.Event, map[string]any{"$id": id, askedKey`, `	body, err := withKeys(effect.Event, map[string]any{askedKey`},
	{"parked without the dead-letter queue", "never dropped", "runtime/durable/parking.go",
		`	if err := l.ports.Queue.Park(ctx, d, reason.Error()); err != nil {`, `	if err := error(nil); err != nil {`},
	{"failures acknowledged", "never dropped", "runtime/durable/loop.go",
		`			l.delay(ctx, rest, err)
			return rest`, `			l.delay(ctx, rest, err)
			return nil`},
	{"outbox cleared whatever its revision", "effects at least once", "runtime/dynamostore/store.go",
		`aws.String("#revision = :revision"),`, `aws.String("#revision >= :revision"),`},
	{"a conflict taken for success", "never dropped", "runtime/durable/turn.go",
		`	if err != nil {
		t.broken = err
		return err
	}
	logged`, `	if err != nil && !errors.Is(err, ErrConflict) {
		t.broken = err
		return err
	}
	logged`},
	{"firings of timers parked", "timers fire", "runtime/durable/failure.go",
		`	if event.Type == statechart.TimerEvent || `, `	if event.Type == "-" || `},
	{"alias claimed by a process that was frozen", "an alias belongs to one instance", "runtime/dynamostore/alias.go",
		`"#revision = :revision AND #created_at = :created_at"`, `"#revision >= :revision AND #created_at = :created_at"`},
	{"parked before a commit has decided it", "applied or parked", "runtime/durable/parking.go",
		`	case t.draft.Instance == nil:
		if err`, `	case ctx != nil:
		if err`},
	{"failures of AWS counted as tries", "never parked for failures of AWS", "runtime/durable/attempt.go",
		`now.Count--`, `now.Count -= 0`},
	{"events that kill processes not taken alone", "one instance's trouble parks no event of another", "runtime/durable/turn.go",
		`	switch suspicion := t.suspicion(); {`, `	under.slot = alone
	switch suspicion := t.suspicion(); {`},
	{"denied effects dropped at once", "denied effects are tried for DeniedWaitMax", "runtime/durable/failed.go",
		`	return !since.IsZero() && t.loop.config.Now().Sub(since) >= t.loop.config.DeniedWaitMax && `, `	return since.IsZero() || `},
	{"items expire that owe effects", "effects at least once", "runtime/durable/state.go",
		`	if next.Kept || next.Owes() {`, `	if next.Kept {`},
	{"unsettled instances take events", "no event while unsettled", "runtime/durable/turn.go",
		`	if t.draft.Instance == nil || t.draft.Instance.Settled() {
		return false, nil
	}`, `	if t.draft.Instance == nil || t.exists() {
		return false, nil
	}`},
	{"delayed messages acknowledged before they are sent", "timers fire", "runtime/schedule/forwarder.go",
		`	if err != nil {
		return fmt.Errorf("forwarding a message that was due`, `	if err != nil && message.At.IsZero() {
		return fmt.Errorf("forwarding a message that was due`},
	{"folded events acknowledged with a failed one", "never dropped", "runtime/durable/loop.go",
		`		rest = rest[done:]
`, `		rest = rest[min(len(rest), max(done, fold-1)):]
`},
	{"stops of children get lost", "a child is stopped when its parent leaves", "runtime/durable/effects.go",
		`	statechart.StopInstance:   {message: (*turn).childMessage, repeatable: true},`,
		`	statechart.StopInstance:   {perform: func(*turn, context.Context, statechart.Effect) error { return nil }},`},
	{"ends of children get lost", "a child's end reaches its parent", "runtime/durable/effects.go",
		`	notifyParent:              {message: (*turn).parentMessage},`,
		`	notifyParent: {perform: func(t *turn, ctx context.Context, effect statechart.Effect) error {
		message, err := t.parentMessage(effect)
		if err == nil && t.deliveries[0].ReceiveCount == 1 {
			_, err = t.loop.ports.Queue.Send(ctx, message)
		}
		return err
	}},`},
	{"failed starts are not reported", "a start that fails is the child's end", "runtime/durable/parking.go",
		`			return l.failStart(ctx, d, form.Parent, reason)`, `			_ = form
			return nil`},
	{"effects of an instance that is not stored", "effects after their commit", "runtime/durable/failure.go",
		`	t.rollBack(d, before)
`, ``},
	{"an expiry reported again and again", "a chart receives an expiry once", "runtime/durable/token.go",
		`if !ok || !token.Expired {`, `if !ok && token.Expired {`},
	{"parked twice, applied twice", "applied once", "runtime/durable/duplicates.go",
		`(known == appliedAt(d.place()) || known == appliedAt(d.ParkedFrom))`, `known == ""`},
	{"a child comes to life after its stop", "a child is stopped when its parent leaves", "runtime/durable/parent.go",
		`	case t.draft.Instance == nil && t.isNamedBy(form.Parent):
		return applicable, nil`, `	case t.draft.Instance == nil && t.isNamedBy(form.Parent):
		return skipped, nil`},
	{"an instance left between two services", "no instance is stuck", "runtime/durable/services.go",
		`	if !s.unstored {
		return nil
	}`, `	if !s.unstored || ctx != nil {
		return nil
	}`},
	{"timers of a migrated instance not scheduled", "timers fire", "runtime/durable/migrate.go",
		`	if len(stored.Services) > 0 {`, `	if len(stored.Services) > 1<<20 {`},
	{"unfinished groups acknowledged early", "never dropped", "runtime/durable/loop.go",
		`		finished <- groups[i][:len(groups[i])-len(again[i])]`, `		finished <- groups[i]`},
	{"executions not polled", "the end of a workflow reaches its chart", "runtime/durable/poll.go",
		`	if end == nil {`, `	if end == nil && ctx != nil {
		return nil
	}
	if end == nil {`},
	{"ends of executions reported again", "the end of a workflow reaches its chart once", "runtime/durable/execution.go",
		`return e.Name == end.Name })
		t.changed()`, `return e.Name == "-" })
		t.changed()`},
	{"heartbeats only once", "a task with heartbeats is kept alive", "runtime/durable/heartbeat.go",
		`	return t.schedule(ctx, at, form, heartbeatID(form))`, `	if form.Count > 1 {
		return nil
	}
	return t.schedule(ctx, at, form, heartbeatID(form))`},
	{"rearming keeps the old IDs", "sends of a restored instance take effect", "runtime/durable/rearm.go",
		`	snapshot, steps, err := stepcount.Raise(record.Snapshot, now.UnixMicro())`,
		`	snapshot, steps, err := stepcount.Raise(record.Snapshot, 0)`},
	{"rearming does not put timers back", "timers of a restored instance fire", "runtime/durable/rearm.go",
		`range instance.Timers() {`, `range instance.Timers()[:0] {`},
	{"rearming forgets the outbox", "effects of a restored instance at least once", "runtime/durable/rearm.go",
		`	outbox := slices.Clip(record.Outbox)`, `	outbox := []statechart.Effect{}`},
	{"rearming does not claim aliases again", "an alias belongs to a restored instance", "runtime/durable/rearm.go",
		`		ask(statechart.Effect{Kind: statechart.ClaimAlias, Name: alias})`, `		_ = alias`},
	{"active instances forgotten", "only ended instances are forgotten", "runtime/durable/operate.go",
		`	case was.Status == statechart.Active:`, `	case was.Status == "":`},
	{"terminated instances have migrated states", "terminating runs no migration", "runtime/durable/operate.go",
		`	if op.Kind == instances.Terminate {`, `	if op.Kind == "" {`},
	{"an operator's change of any revision", "a change applies to the revision that the operator has seen", "runtime/operations/operations.go",
		`	if revision != 0 && before.Revision != revision {`, `	if revision < 0 {`},
	{"ends of moved children get lost", "a child's end reaches its parent", "runtime/durable/operate.go",
		`	t.endAsChild()
`, ``},
	{"a history that lags decides", "a task's answer is not mistaken for an expiry", "runtime/sfncallback/reconcile.go",
		`	case end == nil, !over && !endsTask(*end):`, `	case end == nil && ctx == nil:
		return undecidedError{}
	case end == nil:`},
	{"unknown keys of a context erased", "a build erases no field that it does not know", "runtime/statechart/restore.go",
		`if err := c.contexts.keys.Check(form.Context); err != nil {`, `if err := c.contexts.keys.Check(form.Context); err != nil && form.Steps < 0 {`},
	{"deferred events stored as decoded", "a deferred event keeps the keys that a build does not know", "runtime/statechart/defer.go",
		`	if x.event.raw != "" {`, `	if x.event.raw == "-" {`},
	{"events of unreadable instances parked", "events wait for a build that can read their instance", "runtime/durable/loop.go",
		`		if err != nil && l.fate(err, at) == parkIt {`, `		if errors.Is(err, statechart.ErrUnreadable) {
			done, err = 1, l.park(ctx, rest[0], err)
		} else if err != nil && l.fate(err, at) == parkIt {`},
}

// mutantStrains maps the name of a defect to the strains of all runs that look for this defect. For other defects, the
// seeds draw the strains.
var mutantStrains = map[string]string{
	"a history that lags decides":                "lagging reads",
	"firings of timers parked":                   "small limits",
	"failures of AWS counted as tries":           "sieges",
	"events that kill processes not taken alone": "kills in a row",
	"items expire that owe effects":              "retention",
	"rearming keeps the old IDs":                 "restores",
	"rearming does not put timers back":          "restores",
	"rearming forgets the outbox":                "restores",
	"rearming does not claim aliases again":      "restores",
	"active instances forgotten":                 "operators",
	"terminated instances have migrated states":  "operators",
	"an operator's change of any revision":       "operators",
	"ends of moved children get lost":            "operators",
	"unknown keys of a context erased":           "fields",
	"deferred events stored as decoded":          "fields",
	"events of unreadable instances parked":      "fields",
}

// simulationFailed matches a failure in the output of TestSimulation: a failed run with its first problem, or a run
// that never came to rest.
var simulationFailed = regexp.MustCompile(`run (\d+), seed (\d+) .*:\n\s+(.*)|the run of seed (\d+) has made`)

// TestMutants builds the runtime with each defect, and expects TestSimulation to find it. It prints the table for
// docs/guarantees.md.
func TestMutants(t *testing.T) {
	t.Parallel()
	if *simulateMutants == "" {
		t.Skip("run by make mutants")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := chosenMutants(*simulateMutants)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| defect | promise | seed and run |\n|---|---|---|\n")
	for _, m := range chosen {
		output, err := m.simulate(t, root, t.TempDir())
		found := simulationFailed.FindStringSubmatch(output)
		if err == nil || found == nil {
			t.Errorf("%s: not found in %d runs: %v\n%.1000s", m.name, *simulationRuns, err, output)
			continue
		}
		run, seed, problem := found[1], found[2], found[3]
		if seed == "" {
			run, seed, problem = "", found[4], "it never comes to rest"
		}
		t.Logf("%s: run %s, seed %s: %.200s", m.name, run, seed, problem)
		fmt.Fprintf(&table, "| %s | %s | %s |\n", m.name, m.breaks, seed)
	}
	t.Log("\n" + table.String())
}

// chosenMutants returns the defects with matching names.
func chosenMutants(expression string) (chosen []mutant, err error) {
	var names []string
	matcher, err := regexp.Compile(expression)
	for _, m := range mutants {
		names = append(names, m.name)
		if err == nil && matcher.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	return nil, fmt.Errorf("MUTANTS (-simulate.mutants): expected a regular expression that matches a defect, got %q; there are: %s", expression, strings.Join(names, "; "))
}

// TestMutantsAreChosenByARegularExpression checks the argument of `make mutants`, and the error for a wrong one.
func TestMutantsAreChosenByARegularExpression(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{".": "", "^no watermark$": "no watermark", "timer": "timer ID not checked"} {
		chosen, err := chosenMutants(expression)
		if err != nil || len(chosen) == 0 || want != "" && chosen[0].name != want || want == "" && len(chosen) != len(mutants) {
			t.Errorf("%q: want %q, got %d defects and %v", expression, want, len(chosen), err)
		}
	}
	for _, expression := range []string{"xyz", "("} {
		chosen, err := chosenMutants(expression)
		want := fmt.Sprintf("MUTANTS (-simulate.mutants): expected a regular expression that matches a defect, got %q; there are: no watermark; one watermark for all queues; ", expression)
		if len(chosen) != 0 || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: want %s..., got %d defects and %v", expression, want, len(chosen), err)
		}
	}
}

// TestMutantsCompile checks that the runtime's files still have the texts that `make mutants` replaces. Unless the tests
// are short, it also checks that the package of each defect compiles.
func TestMutantsCompile(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		overlay := m.overlay(t, root, t.TempDir())
		if testing.Short() {
			continue
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./"+filepath.Dir(m.file))
		build.Dir = root
		if output, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", m.name, err, output)
		}
	}
}

// source returns the content of the defect's file. The defect's text must occur in it once.
func (m *mutant) source(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s: expected the text once in %s, found it %d times:\n%s", m.name, m.file, n, m.old)
	}
	return string(text), nil
}

// overlay puts the runtime with the defect into the folder, and returns the file for the flag -overlay of go build.
func (m *mutant) overlay(t *testing.T, root, folder string) (path string) {
	t.Helper()
	source, err := m.source(root)
	if err != nil {
		t.Fatal(err)
	}
	broken, path := filepath.Join(folder, "broken.go"), filepath.Join(folder, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, filepath.FromSlash(m.file)): broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{broken: strings.Replace(source, m.old, m.new, 1), path: string(replaced)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// simulate runs the simulation on the runtime with the defect.
func (m *mutant) simulate(t *testing.T, root, folder string) (output string, err error) {
	t.Helper()
	binary := filepath.Join(folder, "simulate.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", m.overlay(t, root, folder), "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: building: %v\n%s", m.name, err, output)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSimulation$", fmt.Sprintf("-simulate.runs=%d", *simulationRuns), "-simulate.strain="+mutantStrains[m.name], "-test.failfast")
	got, err := run.CombinedOutput()
	return string(got), err
}
