package demo_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
)

func TestServicesLogAndReturnTheSameForOneKey(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	call := map[string]func(key string) (string, error){
		"runner": func(key string) (string, error) {
			runner, err := demo.Runners{Logger: logger}.Launch(t.Context(), job.Request{IdempotencyKey: key})
			return runner.ID, err
		},
		"mail": func(key string) (string, error) {
			return demo.Mailer{Logger: logger}.SendVerification(t.Context(), signup.Verification{IdempotencyKey: key})
		},
		"account": func(key string) (string, error) {
			return demo.Accounts{Logger: logger}.Provision(t.Context(), signup.Account{IdempotencyKey: key})
		},
	}
	for name, do := range call {
		log.Reset()
		first, err := do("key-1")
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := do("key-1"); again != first {
			t.Errorf("%s: got %s, then %s for the same key", name, first, again)
		}
		if other, _ := do("key-2"); other == first {
			t.Errorf("%s: got %s for two keys", name, first)
		}
		if n := strings.Count(log.String(), "would be"); n != 3 || !strings.Contains(log.String(), first) {
			t.Errorf("%s: logged\n%s\nwant three calls, with %s", name, &log, first)
		}
	}
	if code := demo.Code("key-1"); len(code) != 6 || strings.Trim(code, "0123456789") != "" {
		t.Errorf("got the code %q, want six digits", code)
	}
}
