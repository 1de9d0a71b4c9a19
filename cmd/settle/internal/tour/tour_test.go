package tour

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// host returns all machines. A non-nil mailer or launcher replaces the simulated service.
func host(mailer signup.Mailer, runners job.RunnerLauncher) Host {
	return func(logger *slog.Logger, settings machines.Settings) []durable.Machine {
		services := demo.Services(logger)
		if mailer != nil {
			services.Mailer = mailer
		}
		if runners != nil {
			services.Runners = runners
		}
		return machines.All(services, settings)
	}
}

var update = flag.Bool("update", false, "rewrite testdata/tour.txt")

// TestMain sets the time zone of the printed times.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// These parts of the output differ between tours: times (except minutes and seconds), IDs derived from times, codes,
// and keys.
var differing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`(?m)^   \d\d:(\d\d:\d\d)\.\d{3}  `), "   hh:$1.mmm  "},
	{regexp.MustCompile(`demo(-[a-z]+-|://[a-z]+/)[0-9a-f]{12}`), "demo${1}ID~~~~~~~~~~"},
	{regexp.MustCompile(`(code=|"code": ")[0-9]{6}`), "${1}CODE~~"},
	{regexp.MustCompile(`/[\w-]{6}\.\.\.`), "/KEY~~~..."},
	{regexp.MustCompile(`after \d+\.\d s\.`), "after SECONDS s."},
}

// playWhole plays the tour with the real pick-up timeout of five minutes. It returns the output without the item at the
// end.
func playWhole(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		err := Play(t.Context(), &out, host(nil, nil), Config{PickUpTimeout: 5 * time.Minute, UploadWindow: time.Hour, TimeLimit: 2 * time.Hour})
		if err != nil {
			t.Fatalf("%v after:\n%s", err, out.String())
		}
		if took := time.Since(started) - time.Hour; took < 15*time.Minute || took > 16*time.Minute {
			t.Errorf("expected to wait 5 minutes for each of three runners, and for the window, got %v beside the window", took)
		}
	})
	text := out.String()
	for _, d := range differing {
		text = d.is.ReplaceAllString(text, d.as)
	}
	// One run is late from the start. Its alert and its first evaluation may end in either order.
	before, after, _ := strings.Cut(text, "history of pipeline/plans-01\n")
	for _, either := range []string{"sla.breaching → breached", "run.active.evaluating → not_ready"} {
		after = strings.Replace(after, either, "ONE OF TWO", 1)
	}
	text = before + "history of pipeline/plans-01\n" + after
	before, after, _ = strings.Cut(text, "\nWhat DynamoDB holds\n")
	_, after, _ = strings.Cut(after, "\nAll ")
	return before + "\nAll " + after
}

func TestTourPrintsItsTranscript(t *testing.T) {
	t.Parallel()
	const transcript = "testdata/tour.txt"
	got := playWhole(t)
	if *update {
		if err := os.WriteFile(transcript, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("expected the output in %s; go test -update rewrites it (-want +got):\n%s", transcript, diff)
	}
	for number, line := range strings.Split(got, "\n") {
		if n := console.Width(line); n > columnsMax {
			t.Errorf("line %d: expected at most %d columns, got %d: %s", number+1, columnsMax, n, line)
		}
	}
}

// TestEachSceneEndsWithItsStateAndPath checks the path and the result of each execution. It also checks the last line
// of the history and the final state of each instance.
func TestEachSceneEndsWithItsStateAndPath(t *testing.T) {
	t.Parallel()
	scenes := regexp.MustCompile(`(?m)^\d\. `).Split(playWhole(t), -1)[1:]
	if len(scenes) != 8 {
		t.Fatalf("expected 8 scenes, got %d", len(scenes))
	}
	for i, scene := range scenes {
		inOneLine := strings.NewReplacer("{ ", "{", " }", "}", "[ ", "[", " ]", "]")
		scenes[i] = inOneLine.Replace(strings.Join(strings.Fields(scene), " "))
	}
	for _, c := range []struct {
		scene    int
		instance string
		state    string
		// The text before the history ends with `path`. The text after that contains the last line of the history,
		// `history`, and the result, `end`.
		path, history, end string
	}{
		{1, "job/run-1001-job-1", "success", "Queued → PickedUp? → InProgress → Outcome → Succeeded ", "completed in_progress → success", `SUCCEEDED {"outcome": "success", "output": {"conclusion": "success", "launches": 1`},
		{2, "job/run-1002-job-2", "not_picked_up", "Queued → PickedUp? → Outcome → NotPickedUp ", "after pick_up queued → not_picked_up", "FAILED Job.NotPickedUp: No runner has picked the job up."},
		{3, "signup/ada", "active", "", "done.invoke provisioning → active", `output of signup/ada {"account_id": "demo-account-ID~~~~~~~~~~", "outcome": "active"}`},
		{4, "enrich/demo-7", "succeeded", "path of enrich Enrich ", "SUCCEEDED waiting → succeeded", `SUCCEEDED {"enriched": {"outcome": "succeeded", "output": {"data": {"employees": 250, "name": "Acme"}`},
		{4, "enrich/demo-8", "failed", "Enrich → NothingFound ", "FAILED waiting → failed", `SUCCEEDED {"enriched": {"outcome": "nothing_found", "reason": "the page is gone"}`},
		{5, "pipeline/sales-01", "run.succeeded, sla.met", "Pipeline → Outcome → Succeeded ", "done.invoke sla.meeting → met", `"sla": "met", "trigger_attempts": 1}`},
		{6, "pipeline/stock-01", "run.cancelled, sla.breached", "Pipeline → Outcome → Cancelled ", "done.invoke run.active.stopping → run.cancelled", `"outcome": "cancelled", "sla": "breached"`},
		{7, "pipeline/costs-01", "run.validation_exhausted, sla.none", "Pipeline → Outcome → NoData ", "done.invoke run.active.exhausting → run.validation_exhausted", `"reason": "the sensor has reported nothing yet"`},
		{7, "pipeline/leads-01", "run.job_timed_out, sla.none", "Pipeline → Outcome → JobTimedOut ", "after check run.active.job_running → run.job_timed_out", `FAILED Pipeline.JobTimedOut: {"checks": 0`},
		{7, "pipeline/plans-01", "run.succeeded, sla.breached", "Pipeline → Outcome → SucceededLate ", "done.invoke run.active.checking → run.succeeded", `"outcome": "succeeded", "sla": "breached"`},
		{8, "upload/2000_01", "completed", "path of upload-sales Sales → Outcome → Processed ", "after window open.warehouse.processed, open.sales.processed → completed",
			`output of upload-sales, SUCCEEDED {"outcome": "processed", "output": {"changes": 1, "dataset": {"location": "demo://sales/ID~~~~~~~~~~"}`},
	} {
		before, shown, ok := strings.Cut(scenes[c.scene-1], "history of "+c.instance+" ")
		if !ok {
			t.Errorf("scene %d: expected the history of %s, got %s", c.scene, c.instance, scenes[c.scene-1])
			continue
		}
		if !strings.HasSuffix(before, c.path) {
			t.Errorf("%s: expected the path to end with %q, got %s", c.instance, c.path, before)
		}
		for _, want := range []string{c.history, c.end} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: expected %q in %s", c.instance, want, shown)
			}
		}
		if last := scenes[len(scenes)-1]; !strings.Contains(last, " "+c.instance+" "+c.state+" ") {
			t.Errorf("expected %s to end in %s, got %s", c.instance, c.state, last)
		}
	}
	if want := "pipeline.asl.json ended in 5 ways: Succeeded, Cancelled, NoData, JobTimedOut, SucceededLate"; !strings.Contains(scenes[6], want) {
		t.Errorf("expected %q, got %s", want, scenes[6])
	}
}

// never is a service that blocks until its context ends.
type never struct{}

func (never) Launch(ctx context.Context, _ job.Request) (job.Runner, error) {
	<-ctx.Done()
	return job.Runner{}, ctx.Err()
}

func TestTourThatTimesOutSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		err := Play(t.Context(), &out, host(nil, never{}), Config{TimeLimit: 15 * time.Second})
		want := "waited for job/run-1001-job-1 to reach queued; it is in no state yet: the time limit is reached, 15s"
		if !errors.Is(err, errTimeLimit) || err.Error() != want {
			t.Errorf("expected %q, got %q", want, err)
		}
		if strings.Contains(out.String(), "ended as expected") {
			t.Errorf("expected no success, got:\n%s", out.String())
		}
	})
}

// forgetful is a mailer that mails one code and logs another.
type forgetful struct{ demo.Mailer }

func (f forgetful) SendVerification(ctx context.Context, v signup.Verification) (string, error) {
	_, err := f.Mailer.SendVerification(ctx, v)
	return "another", err
}

func TestTourFailsWhenTheSignUpDoesNotEndActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		play := func(logger *slog.Logger, settings machines.Settings) []durable.Machine {
			return host(forgetful{demo.Mailer{Logger: logger}}, nil)(logger, settings)
		}
		err := Play(t.Context(), &out, play, Config{TimeLimit: 15 * time.Second})
		want := "waited for signup/ada to reach active; it is in unverified.awaiting_verification: the time limit is reached, 15s"
		if err == nil || err.Error() != want {
			t.Errorf("expected %q, got %v", want, err)
		}
	})
}

func TestEndChecksTheInstance(t *testing.T) {
	t.Parallel()
	expected := end{"signup/ada", "active"}
	for _, c := range []struct {
		state  string
		status statechart.Status
		good   bool
	}{{"active", "done", true}, {"locked", "done", false}, {"active", "active", false}} {
		err := expected.check(instances.Record{State: []string{c.state}, Status: c.status})
		if (err == nil) != c.good {
			t.Errorf("%s, %s: expected good to be %v, got %v", c.state, c.status, c.good, err)
		}
	}
}

func TestTourFailsIfDynamoDBHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		hosted := func(string) []durable.Machine { return host(nil, nil)(logger, machines.Settings{}) }
		running, err := stack.Start(t.Context(), hosted, stack.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		p := &player{Tour: New(io.Discard, Config{}), ctx: t.Context(), stack: running}
		err = try(func() { p.showEnd(end{"signup/missing", "active"}) })
		if err == nil || !strings.Contains(err.Error(), "signup/missing: expected to be done in active") {
			t.Errorf("expected an error about signup/missing, got %v", err)
		}
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestTourWaitsForEffects stores an instance whose effect is performed a minute later.
func TestTourWaitsForEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		hosted := func(string) []durable.Machine { return host(nil, nil)(logger, machines.Settings{}) }
		running, err := stack.Start(t.Context(), hosted, stack.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		store := dynamostore.New(dynamodb.NewFromConfig(running.AWS()), stack.Table)
		id, began := instances.ID{Machine: "enrich", ID: "1"}, time.Now()
		storing := make(chan struct{})
		go func() {
			defer close(storing)
			time.Sleep(time.Minute) // Until then, the instance does not exist.
			err := store.Commit(t.Context(), instances.Record{
				Instance: id, Revision: 1, Snapshot: []byte(`{"machine":"enrich","version":1,"value":"waiting","context":{},"status":"active","tags":[]}`),
				State: []string{"waiting"}, Status: statechart.Active, CreatedAt: began, UpdatedAt: began,
				Outbox: []statechart.Effect{{ID: "1.0", Kind: statechart.ClaimAlias, Name: "provider/1"}},
			})
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			if err := store.ClearOutbox(t.Context(), id, 1, durable.Left{}); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		p := &player{ctx: ctx, stack: running}
		if err := try(func() { p.performed(id.String()) }); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*time.Minute || took > 2*time.Minute+time.Second {
			t.Errorf("expected to wait two minutes, got %v", took)
		}
		<-storing // The tour may see the empty outbox before ClearOutbox returns.
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestItemIsPrintedFaithfully(t *testing.T) {
	t.Parallel()
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	number := func(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
	long := func(s string) types.AttributeValue { return text(strings.Repeat(s, 30)) }
	got := itemText(map[string]types.AttributeValue{
		"instance": text("signup/42"),
		"context": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"a": long("a"), "b": long("b"), "count": number("7.5"), "z": &types.AttributeValueMemberBOOL{Value: true},
		}},
		"history":  &types.AttributeValueMemberL{Value: []types.AttributeValue{long("1"), long("2"), long("3"), text("<>")}},
		"tags":     &types.AttributeValueMemberNULL{Value: true},
		"revision": number("7"),
		"set":      &types.AttributeValueMemberSS{Value: []string{"x, y", "z"}},
	}, "  ", "instance", "absent")
	a := func(s string) string { return `"` + strings.Repeat(s, 30) + `"` }
	want := `  instance  S     "signup/42"
  context   M     {
                    "a": ` + a("a") + `,
                    "b": ` + a("b") + `,
                    "count": 7.5,
                    "z": true
                  }
  history   L     [
                    ` + a("1") + `,
                    ` + a("2") + `,
                    ` + a("3") + `,
                    "<>"
                  ]
  revision  N     7
  set       SS    ["x, y", "z"]
  tags      NULL  null
`
	if got != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, got)
	}
}

func TestTokensAreNotPrinted(t *testing.T) {
	t.Parallel()
	text := itemText(map[string]types.AttributeValue{
		"instance": &types.AttributeValueMemberS{Value: "job/1"},
		"tokens": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"value": &types.AttributeValueMemberS{Value: "token-1"},
		}}}},
	}, "")
	if strings.Contains(text, "token-1") || !strings.Contains(text, "job/1") || !strings.Contains(text, "secret") {
		t.Errorf("expected the item without its token, got %s", text)
	}
}
