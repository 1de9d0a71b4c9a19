package signup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// mailbox is a fake mailer. The code of the n-th mail is the digit n four times: 1111 for the first mail. A mail is
// sent even if its call fails, as if the response was lost.
type mailbox struct {
	outcomes *statecharttest.Outcomes
	mails    []signup.Verification
}

func (m *mailbox) SendVerification(ctx context.Context, v signup.Verification) (string, error) {
	m.mails = append(m.mails, v)
	return code(len(m.mails)), m.outcomes.Next(ctx)
}

// code returns the code of the n-th mail.
func code(n int) string { return strings.Repeat(fmt.Sprint(n), 4) }

// directory is a fake that creates one account.
type directory struct {
	outcomes *statecharttest.Outcomes
	accounts []signup.Account
}

func (d *directory) Provision(ctx context.Context, a signup.Account) (string, error) {
	d.accounts = append(d.accounts, a)
	return "account-1", d.outcomes.Next(ctx)
}

var ada = signup.SignUp{Email: "ada@example.com", Name: "Ada"}

// play starts a sign-up whose mails have the given outcomes. See statecharttest.Outcomes.
func play(t statecharttest.TB, config signup.Config, mails ...string) (*statecharttest.Player[signup.Context], *mailbox, *directory) {
	t.Helper()
	outcomes, err := statecharttest.NewOutcomes(mails...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	mailer, accounts := &mailbox{outcomes: outcomes}, &directory{outcomes: &statecharttest.Outcomes{}}
	return statecharttest.Play(t, signup.New(mailer, accounts, config), statecharttest.Config{Instance: "signup/ada"}), mailer, accounts
}

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[signup.Context] {
		return signup.New(&mailbox{outcomes: setup.Outcomes("mail")}, &directory{outcomes: setup.Outcomes("account")}, signup.Config{})
	}).Require(t)
}

func TestOnlyTheCodeOfTheLastMailIsAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		mails []string
		then  []string
		last  int
	}{
		{name: "one mail", last: 1},
		{name: "first attempt failed after its mail was sent", mails: []string{"fail"}, last: 2},
		{name: "two attempts timed out after their mails were sent", mails: []string{"hang", "hang"}, last: 3},
		{name: "resent", then: []string{"RESEND", "RESEND"}, last: 3},
		{name: "resent with a repeated attempt", mails: []string{"ok", "fail"}, then: []string{"RESEND"}, last: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, mailer, _ := play(t, signup.Config{}, c.mails...)
			p.Send("SIGN_UP", ada)
			for _, event := range c.then {
				p.Send(event, nil)
			}
			if len(mailer.mails) != c.last {
				t.Fatalf("expected %d mails, got %d", c.last, len(mailer.mails))
			}
			for n := 1; n < c.last; n++ {
				p.Send("VERIFY", signup.Verify{Code: code(n)})
				if got := p.State(); got != "unverified.awaiting_verification" {
					t.Errorf("the code of mail %d of %d led to %s", n, c.last, got)
				}
			}
			p.Send("VERIFY", signup.Verify{Code: code(c.last)})
			if got := p.State(); got != "active" {
				t.Errorf("the code of the last mail led to %s", got)
			}
		})
	}
}

func TestAttemptsShareAnIdempotencyKeyAndMailsDoNot(t *testing.T) {
	t.Parallel()
	p, mailer, accounts := play(t, signup.Config{}, "fail", "ok", "ok")
	p.Send("SIGN_UP", ada)
	p.Send("CHANGE_ADDRESS", signup.ChangeAddress{Email: "ada@example.org"})
	p.Send("VERIFY", signup.Verify{Code: code(3)})

	wantMails := []signup.Verification{
		{IdempotencyKey: "signup/ada/2.1", Email: "ada@example.com", Name: "Ada"},
		{IdempotencyKey: "signup/ada/2.1", Email: "ada@example.com", Name: "Ada"},
		{IdempotencyKey: "signup/ada/4.0", Email: "ada@example.org", Name: "Ada"},
	}
	if diff := cmp.Diff(wantMails, mailer.mails); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
	wantAccounts := []signup.Account{{IdempotencyKey: "signup/ada/6.0", Email: "ada@example.org", Name: "Ada"}}
	if diff := cmp.Diff(wantAccounts, accounts.accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

func TestSnapshotsContainNoCodeAndInstancesShareNoHash(t *testing.T) {
	t.Parallel()
	hashes := map[string]string{}
	for name, c := range map[string]struct {
		instance string
		config   signup.Config
	}{
		"one":             {instance: "signup/1"},
		"two":             {instance: "signup/2"},
		"two with a key":  {instance: "signup/2", config: signup.Config{CodeKey: []byte("sixteen bytes or")}},
		"two, other key ": {instance: "signup/2", config: signup.Config{CodeKey: []byte("more than sixteen")}},
	} {
		mailer := &mailbox{outcomes: &statecharttest.Outcomes{}}
		p := statecharttest.Play(t, signup.New(mailer, &directory{}, c.config), statecharttest.Config{Instance: c.instance})
		p.Send("SIGN_UP", ada)
		p.Send("VERIFY", signup.Verify{Code: "9999"})
		text, err := json.Marshal(p.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{code(1), "9999"} {
			if strings.Contains(string(text), `"`+code) {
				t.Errorf("%s: the snapshot contains the code %s: %s", name, code, text)
			}
		}
		hash := p.Snapshot().Context.CodeHash
		if len(hash) != 64 {
			t.Errorf("%s: expected a hash of 64 hex digits, got %q", name, hash)
		}
		if other, shared := hashes[hash]; shared {
			t.Errorf("%s and %s share a hash", name, other)
		}
		hashes[hash] = name
	}
}

func TestNeitherMailsNorGuessesExtendTheDeadline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, _, _ := play(t, signup.Config{WrongCodesMax: 100, ResendsMax: 100, AddressChangesMax: 100})
		p.Send("SIGN_UP", ada)
		deadline := p.Now().Add(24 * time.Hour)
		for _, minutes := range rapid.SliceOfN(rapid.IntRange(0, 480), 0, 8).Draw(t, "minutes between events") {
			p.Advance(time.Duration(minutes) * time.Minute)
			if !p.Now().Before(deadline) {
				break
			}
			event := rapid.SampledFrom([]string{"RESEND", "CHANGE_ADDRESS", "VERIFY"}).Draw(t, "event")
			p.Send(event, map[string]string{"email": "ada@example.org", "code": "wrong"})
			if !p.Handled() {
				t.Fatalf("%s was ignored in %s", event, p.State())
			}
		}
		if left := deadline.Sub(p.Now()); left > 0 {
			p.Advance(left - time.Nanosecond)
			if got := p.State(); got != "unverified.awaiting_verification" {
				t.Fatalf("before the deadline: expected unverified.awaiting_verification, got %s", got)
			}
			p.Advance(time.Nanosecond)
		}
		if got := p.State(); got != "expired" {
			t.Fatalf("at the deadline: expected expired, got %s", got)
		}
	})
}

func TestTheFifthWrongCodeLocksWhateverEventsComeBetween(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, mailer, _ := play(t, signup.Config{})
		p.Send("SIGN_UP", ada)
		for wrong := 1; wrong <= 5; wrong++ {
			for _, event := range rapid.SliceOfN(rapid.SampledFrom([]string{"RESEND", "CHANGE_ADDRESS"}), 0, 2).Draw(t, "between") {
				p.Send(event, signup.ChangeAddress{Email: "ada@example.org"})
			}
			if got := p.State(); got != "unverified.awaiting_verification" {
				t.Fatalf("before wrong code %d: expected unverified.awaiting_verification, got %s", wrong, got)
			}
			p.Send("VERIFY", signup.Verify{Code: "wrong"})
		}
		if got := p.State(); got != "locked" {
			t.Fatalf("expected locked, got %s", got)
		}
		if got := len(mailer.mails); got > 7 {
			t.Fatalf("expected at most 1 first mail, 3 resends and 3 to new addresses, got %d", got)
		}
	})
}

func TestAMailerWithoutACodeFailsPermanently(t *testing.T) {
	t.Parallel()
	calls := 0
	p := statecharttest.Play(t, signup.New(codeless{&calls}, &directory{}, signup.Config{}), statecharttest.Config{})
	p.Send("SIGN_UP", ada)
	if got := p.State(); got != "mail_failed" || calls != 1 {
		t.Errorf("expected mail_failed after 1 call, got %s after %d", got, calls)
	}
}

type codeless struct{ calls *int }

func (c codeless) SendVerification(context.Context, signup.Verification) (string, error) {
	*c.calls++
	return "", nil
}

func TestInvalidConfigPanicsBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]signup.Config{
		"signup.Config: expected a positive Deadline, got -1s":                   {Deadline: -time.Second},
		"signup.Config: expected a positive ServiceTimeout, got -1s":             {ServiceTimeout: -time.Second},
		"signup.Config: expected a positive WrongCodesMax, got -1":               {WrongCodesMax: -1},
		"signup.Config: expected a positive ResendsMax, got -1":                  {ResendsMax: -1},
		"signup.Config: expected a positive AddressChangesMax, got -1":           {AddressChangesMax: -1},
		"signup.Config: expected a CodeKey of at least 16 bytes, or none, got 1": {CodeKey: []byte("k")},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("expected the panic %q, got %q", want, got)
				}
			}()
			signup.New(codeless{}, &directory{}, config)
		}()
	}
}

func TestStartedByNamesTheOnlyEventThatNewAccepts(t *testing.T) {
	t.Parallel()
	p, _, _ := play(t, signup.Config{})
	if got := p.Snapshot().NextEvents(); !slices.Equal(got, signup.StartedBy) {
		t.Errorf("expected %v, got %v", signup.StartedBy, got)
	}
}
