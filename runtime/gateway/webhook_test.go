package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/gateway"
)

// This is GitHub's example of a signature:
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
func TestGitHubsExampleSignatureIsAccepted(t *testing.T) {
	t.Parallel()
	const want = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if got := sign("It's a Secret to Everybody", []byte("Hello, World!")); got != want {
		t.Fatalf("expected %s, got %s", want, got)
	}
	w := newWorld(t, gateway.Config{Webhooks: github("It's a Secret to Everybody")})
	header := withHeader(withHeader(webhookHeader(nil), "X-Hub-Signature-256", want), "X-GitHub-Event", "ping")
	answer := post(w, "/webhooks/github", "Hello, World!", header)
	if answer.Code != http.StatusOK || answer.Body.String() != `{"status":"pong","event":"ping"}`+"\n" {
		t.Errorf("expected 200 and pong, got %d %s", answer.Code, answer.Body)
	}
}

func TestOnlyTheCorrectSignatureIsAccepted(t *testing.T) {
	t.Parallel()
	const body = `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued"}}`
	right := sign(webhookSecret, []byte(body))
	digits := strings.TrimPrefix(right, "sha256=")
	flipped := map[byte]string{'0': "1"}[right[len(right)-1]]
	if flipped == "" {
		flipped = "0"
	}
	for name, test := range map[string]struct {
		signature string
		want      int
	}{
		"right":                  {right, http.StatusAccepted},
		"correct, in capitals":   {"sha256=" + strings.ToUpper(digits), http.StatusAccepted},
		"by the previous secret": {sign(previousSecret, []byte(body)), http.StatusAccepted},
		"by an older secret":     {sign(olderSecret, []byte(body)), http.StatusUnauthorized},
		"by an empty secret":     {sign("", []byte(body)), http.StatusUnauthorized},
		"for part of the body":   {sign(webhookSecret, []byte(body[:len(body)-1])), http.StatusUnauthorized},
		"last digit wrong":       {right[:len(right)-1] + flipped, http.StatusUnauthorized},
		"first digits only":      {right[:len(right)-2], http.StatusUnauthorized},
		"one digit more":         {right + "0", http.StatusUnauthorized},
		"twice":                  {right + digits, http.StatusUnauthorized},
		"algorithm missing":      {digits, http.StatusUnauthorized},
		"algorithm misspelt":     {"SHA256=" + digits, http.StatusUnauthorized},
		"another algorithm":      {"sha1=" + digits, http.StatusUnauthorized},
		"empty":                  {"sha256=", http.StatusUnauthorized},
		"missing":                {"", http.StatusUnauthorized},
	} {
		w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
		answer := post(w, "/webhooks/github", body, withHeader(webhookHeader(nil), "X-Hub-Signature-256", test.signature))
		if answer.Code != test.want {
			t.Errorf("%s: expected %d, got %d %s", name, test.want, answer.Code, answer.Body)
		}
		if queued := len(w.queue.sent); (queued == 1) != (test.want == http.StatusAccepted) {
			t.Errorf("%s: the queue has %d events", name, queued)
		}
		if answer.Code == http.StatusUnauthorized && strings.Contains(answer.Body.String(), digits) {
			t.Errorf("%s: the answer contains the correct signature: %s", name, answer.Body)
		}
	}
}

// Stripe and Slack sign a timestamp together with the body.
func TestASignatureOfPartsIsAccepted(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the tests"
	secrets, body := gateway.Secrets{Current: []byte(secret)}, []byte("body")
	digits := strings.TrimPrefix(sign(secret, []byte("1700000000.body")), "sha256=")
	if err := gateway.SignedBy(secrets, digits, []byte("1700000000."), body); err != nil {
		t.Errorf("expected the signature accepted, got %v", err)
	}
	if err := gateway.SignedBy(secrets, digits, []byte("1700000001."), body); err == nil {
		t.Error("expected another time rejected")
	}
}

func TestAnEmptySecretAcceptsNothing(t *testing.T) {
	t.Parallel()
	body, byNone := []byte("body"), strings.TrimPrefix(sign("", []byte("body")), "sha256=")
	for name, secrets := range map[string]gateway.Secrets{
		"no previous secret": {Current: []byte("a secret of the tests")}, "no current secret": {Previous: []byte("a secret of the tests")}, "none": {},
		"empty, not nil": {Current: []byte("a secret of the tests"), Previous: []byte{}},
	} {
		if err := gateway.SignedBy(secrets, byNone, body); err == nil {
			t.Errorf("%s: expected the signature by an empty secret rejected", name)
		}
	}
}
