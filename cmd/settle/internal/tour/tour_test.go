package tour

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
)

// host hosts all machines; a mailer or a launcher that is not nil takes the place of the one
// that succeeds.
func host(mailer signup.Mailer, runners job.RunnerLauncher) Host {
	return func(logger *slog.Logger, settings machines.Settings) []durable.Machine {
		services := machines.Services{Runners: runners, Mailer: mailer, Accounts: demo.Accounts{Logger: logger}}
		if mailer == nil {
			services.Mailer = demo.Mailer{Logger: logger}
		}
		if runners == nil {
			services.Runners = demo.Runners{Logger: logger}
		}
		return machines.All(services, settings)
	}
}

func TestTourPlaysInOrderWithTheFiveMinutesOfTheRealChart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		started := time.Now()
		err := Play(t.Context(), &out, host(nil, nil), Config{PickUpTimeout: 5 * time.Minute, TimeLimit: time.Hour})
		if err != nil {
			t.Fatalf("%v after:\n%s", err, out.String())
		}
		if took := time.Since(started); took < 15*time.Minute || took > 16*time.Minute {
			t.Errorf("expected three runners to be waited for, 5 minutes each, got %v", took)
		}
		story := regexp.MustCompile(`(?m)^   (?:POST \S+|StartExecution \S+|workflow .*|\d\d:\d\d:\d\d\.\d+  \S+  +\S+.*  \(revision \d+\))`).FindAllString(out.String(), -1)
		for i, line := range story {
			story[i] = strings.Join(strings.Fields(line), " ")
		}
		want := []string{
			"StartExecution infra/workflows/job.asl.json,",
			"POST /webhooks/github",
			"00:00:00.000 job/run-1001-job-1 queued new → launching (revision 2)",
			"00:00:00.000 job/run-1001-job-1 done.invoke launching → queued (revision 2)",
			"POST /webhooks/github",
			"00:00:00.000 job/run-1001-job-1 in_progress queued → in_progress (revision 3)",
			"POST /webhooks/github",
			"00:00:00.000 job/run-1001-job-1 completed in_progress → success (revision 5)",
			"workflow Queued → PickedUp? → InProgress → Outcome → Succeeded SUCCEEDED",
			"StartExecution infra/workflows/job.asl.json,",
			"POST /webhooks/github",
			"00:00:00.000 job/run-1002-job-2 queued new → launching (revision 2)",
			"00:00:00.000 job/run-1002-job-2 done.invoke launching → queued (revision 2)",
			"00:05:00.000 job/run-1002-job-2 after pick_up queued → launching (revision 3)",
			"00:05:00.000 job/run-1002-job-2 done.invoke launching → queued (revision 3)",
			"00:10:00.000 job/run-1002-job-2 after pick_up queued → launching (revision 4)",
			"00:10:00.000 job/run-1002-job-2 done.invoke launching → queued (revision 4)",
			"00:15:00.000 job/run-1002-job-2 after pick_up queued → not_picked_up (revision 5)",
			"workflow Queued → PickedUp? → Outcome → NotPickedUp FAILED",
			"POST /instances/signup/ada/events",
			"00:15:00.000 signup/ada SIGN_UP new → unverified.registering (revision 1)",
			"00:15:00.000 signup/ada done.invoke unverified.registering → unverified.awaiting_verification (revision 1)",
			"POST /instances/signup/ada/events",
			"00:15:00.000 signup/ada VERIFY stays in unverified.awaiting_verification (revision 2)",
			"POST /instances/signup/ada/events",
			"00:15:00.000 signup/ada RESEND unverified.awaiting_verification → unverified.registering (revision 3)",
			"00:15:00.000 signup/ada done.invoke unverified.registering → unverified.awaiting_verification (revision 3)",
			"POST /instances/signup/ada/events",
			"00:15:00.000 signup/ada VERIFY unverified.awaiting_verification → provisioning (revision 4)",
			"00:15:00.000 signup/ada done.invoke provisioning → active (revision 4)",
		}
		// The hour is that of the zone, and how long the tour looks away shows in milliseconds.
		local := regexp.MustCompile(`^\d\d:(\d\d:\d\d)\.\d+`)
		for i := range max(len(story), len(want)) {
			got, expected := "nothing", "nothing"
			if i < len(story) {
				got = local.ReplaceAllString(story[i], "$1")
			}
			if i < len(want) {
				expected = local.ReplaceAllString(want[i], "$1")
			}
			if got != expected {
				t.Errorf("line %d: expected %q, got %q", i, expected, got)
			}
		}
	})
}

// never is a service that is never done, but ends when it is told to.
type never struct{}

func (never) Launch(ctx context.Context, _ job.Request) (job.Runner, error) {
	<-ctx.Done()
	return job.Runner{}, ctx.Err()
}

func TestTourThatComesToNoEndSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		err := Play(t.Context(), &out, host(nil, never{}), Config{})
		want := "waited for job/run-1001-job-1 to come into queued; it is in nowhere yet: the time limit is reached, 15s"
		if !errors.Is(err, errTimeLimit) || err.Error() != want {
			t.Errorf("expected %q, got %q", want, err)
		}
		if strings.Contains(out.String(), "ended where they should") {
			t.Errorf("expected no happy end, got:\n%s", out.String())
		}
	})
}

// forgetful mails one code and says it was another.
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
		err := Play(t.Context(), &out, play, Config{})
		want := "waited for signup/ada to come into active; it is in unverified.awaiting_verification: the time limit is reached, 15s"
		if err == nil || err.Error() != want {
			t.Errorf("expected %q, got %v", want, err)
		}
	})
}

func TestEndChecksTheItem(t *testing.T) {
	t.Parallel()
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	list := func(s string) types.AttributeValue {
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{text(s)}}
	}
	expected := end{"signup/ada", "active"}
	for _, c := range []struct {
		state, status string
		good          bool
	}{{"active", "done", true}, {"locked", "done", false}, {"active", "active", false}} {
		err := expected.check(map[string]types.AttributeValue{"state": list(c.state), "status": text(c.status)})
		if (err == nil) != c.good {
			t.Errorf("%s, %s: expected good to be %v, got %v", c.state, c.status, c.good, err)
		}
	}
}

func TestTourFailsIfDynamoDBHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		running, err := stack.Start(t.Context(), host(nil, nil)(logger, machines.Settings{}), stack.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := &player{out: &out, stack: running}
		err = p.showItems(t.Context(), []end{{"signup/nobody", "active"}})
		if err == nil || !strings.Contains(err.Error(), "signup/nobody: expected to be done in active") {
			t.Errorf("expected an error about signup/nobody, got %v", err)
		}
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
			"a": long("a"), "b": long("b"), "count": number("7.50"), "z": &types.AttributeValueMemberBOOL{Value: true},
		}},
		"history":  &types.AttributeValueMemberL{Value: []types.AttributeValue{long("1"), long("2"), long("3"), text("<>")}},
		"tags":     &types.AttributeValueMemberNULL{Value: true},
		"revision": number("7"),
		"set":      &types.AttributeValueMemberSS{Value: []string{"x, y", "z"}},
	}, "  ", "instance", "absent")
	a := func(s string) string { return `"` + strings.Repeat(s, 30) + `"` }
	want := `  instance  S     "signup/42"
  context   M     {"a": ` + a("a") + `, "b": ` + a("b") + `, "count": 7.50,
                   "z": true}
  history   L     [` + a("1") + `,
                   ` + a("2") + `,
                   ` + a("3") + `,
                   "<>"]
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
