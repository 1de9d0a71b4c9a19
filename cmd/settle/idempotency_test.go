package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// deduplicationPeriod is how long SQS remembers a deduplication ID: Amazon SQS Developer Guide, "Using the message
// deduplication ID in Amazon SQS".
const deduplicationPeriod = 5 * time.Minute

// postWithKey posts an event to signup/42 with an Idempotency-Key, and returns status and body.
func (u user) postWithKey(key, event string) (status int, body string) {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, u.stack.HTTPURL()+"/instances/signup/42/events", strings.NewReader(event))
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := u.stack.HTTPClient().Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// signUp is an event that starts signup/42.
const signUp = `{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`

// If a key is reused with another body, the gateway responds with 409 and queues nothing, within SQS's deduplication
// period and later. The same event under the key is applied once, however its JSON is written.
func TestGatewayRefusesAKeyUsedForAnotherEvent(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		if status, body := u.postWithKey("form-7", signUp); status != http.StatusAccepted {
			u.t.Fatalf("expected 202, got %d %s", status, body)
		}
		for _, wait := range []time.Duration{0, deduplicationPeriod + time.Second, 12 * time.Hour} {
			time.Sleep(wait)
			if status, body := u.postWithKey("form-7", `{"type": "CANCEL"}`); status != http.StatusConflict || !strings.Contains(body, `"code":"id_reused"`) {
				u.t.Errorf("after %v, another event under the key: expected 409 and id_reused, got %d %s", wait, status, body)
			}
			if status, body := u.postWithKey("form-7", `{"name":"Ada", "email":"ada@example.com","type":"SIGN_UP"}`); status != http.StatusAccepted {
				u.t.Errorf("after %v, the same event under the key: expected 202, got %d %s", wait, status, body)
			}
		}
		if got := u.run("history", "--local", "signup/42"); strings.Count(got.out, "SIGN_UP") != 1 || strings.Contains(got.out, "CANCEL") {
			u.t.Errorf("expected SIGN_UP once and no CANCEL, got:\n%s", got.out)
		}
		contains(u.t, u.must("dlq", "list", "--local"), "No parked events")
	})
}

// settle send --id has its own exit code for an ID that was used for another event.
func TestSendRefusesAnIDUsedForAnotherEvent(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		sent := []string{"send", "--local", "signup/42", "SIGN_UP", "name=Ada", "email=ada@example.com", "--id", "form-7"}
		u.must(sent...)
		for _, wait := range []time.Duration{0, deduplicationPeriod + time.Second} {
			time.Sleep(wait)
			got := u.run("send", "--local", "signup/42", "CANCEL", "--id", "form-7")
			if want := `settle: event ID used before with another body: "form-7" to signup/42`; got.code != command.ExitIDReused || !strings.HasPrefix(got.err, want) || got.out != "" {
				u.t.Errorf("after %v: expected exit code 6 and %q, got %+v", wait, want, got)
			}
			u.must(sent...)
		}
		contains(u.t, u.must("get", "--local", "signup/42"), "unverified")
		if listed := u.must("export", "--local"); strings.Count(listed, "\n") != 1 {
			u.t.Errorf("expected only signup/42, got:\n%s", listed)
		}
	})
}

// Without a table, settle send --id cannot check the ID. It warns and sends the event.
func TestSendWarnsIfItCannotCheckTheID(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/42", "SIGN_UP", "name=Ada", "email=ada@example.com", "--id", "form-7")
		got := u.run("send", "--local", "--table", "nowhere", "signup/42", "RESEND", "--id", "form-8")
		for _, part := range []string{"settle: warning: cannot check whether --id form-8 was used for another event: ", "no such table", "in table nowhere", "sending the event without the check"} {
			contains(u.t, got.err, part)
		}
		if got.code != command.ExitDone || !strings.HasPrefix(got.out, "sent RESEND to signup/42") || strings.Count(got.err, "\n") != 1 {
			u.t.Errorf("expected exit code 0, one warning and a sent event, got %+v", got)
		}
		contains(u.t, u.must("history", "--local", "signup/42"), "RESEND")
		// Without --id there is no check and no warning.
		u.must("send", "--local", "--table", "nowhere", "signup/42", "CANCEL")
	})
}

// If a command dies before or after one of its two writes, or loses the response, a repeat applies the event once.
func TestSendCanBeRepeatedAfterAnyFailedCall(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"UpdateItem", "SendMessage"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+failing, func(t *testing.T) {
				t.Parallel()
				withStack(t, func(u user) {
					fault := func(operation, _ string) error {
						if operation == failing {
							return errors.New("no route")
						}
						return nil
					}
					process := u.faultily(fault, nil)
					if when == "after" {
						process = u.faultily(nil, fault)
					}
					line := []string{"send", "--local", "signup/42", "SIGN_UP", "name=Ada", "email=ada@example.com", "--id", "form-7"}
					if got := u.runAs(process, line...); got.code != command.ExitFailed {
						u.t.Fatalf("expected exit code 1, got %+v", got)
					}
					u.must(line...)
					if got := u.must("history", "--local", "signup/42"); strings.Count(got, "SIGN_UP") != 1 {
						u.t.Errorf("expected SIGN_UP once, got:\n%s", got)
					}
				})
			})
		}
	}
}
