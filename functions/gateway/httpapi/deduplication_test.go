package httpapi_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/runtime/durable"
)

// sqsDeduplicationID is what SQS takes as MessageDeduplicationId.
var sqsDeduplicationID = regexp.MustCompile("^[!-~]{1,128}$")

func TestDeduplicationIDIsReadableWhereSQSAllows(t *testing.T) {
	t.Parallel()
	to := durable.InstanceID{Machine: "signup", ID: "42"}
	const prefix = "$id/signup/42/"
	for id, want := range map[string]string{
		"order-7":                            prefix + "order-7",
		"a/b":                                prefix + "a/b",
		strings.Repeat("i", 128-len(prefix)): prefix + strings.Repeat("i", 128-len(prefix)),
		"with space":                         "$id-sha256/",
		"naïve":                              "$id-sha256/",
		"\x7f":                               "$id-sha256/",
		strings.Repeat("i", 129-len(prefix)): "$id-sha256/",
	} {
		got := httpapi.DeduplicationID(to, id)
		if !strings.HasPrefix(got, want) || !sqsDeduplicationID.MatchString(got) {
			t.Errorf("%q: expected %q, got %q", id, want, got)
		}
	}
}

// Two events share a deduplication ID only if they share instance and ID.
func TestDeduplicationIDTellsInstancesAndIDsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Few characters, so that parts that run into each other are likely.
		name := rapid.StringMatching(`[a/ ]{1,3}|a{40,70}`)
		part := rapid.StringMatching(`[ab$]{1,3}|a{40,60}`)
		a := durable.InstanceID{Machine: part.Draw(t, "machine"), ID: part.Draw(t, "id")}
		b := durable.InstanceID{Machine: part.Draw(t, "machine"), ID: part.Draw(t, "id")}
		aID, bID := name.Draw(t, "event"), name.Draw(t, "event")
		aDedup, bDedup := httpapi.DeduplicationID(a, aID), httpapi.DeduplicationID(b, bID)
		if !sqsDeduplicationID.MatchString(aDedup) {
			t.Fatalf("SQS refuses %q", aDedup)
		}
		if same := a == b && aID == bID; same != (aDedup == bDedup) {
			t.Fatalf("%s %q has %q, %s %q has %q", a, aID, aDedup, b, bID, bDedup)
		}
	})
}

func TestRequestsWithoutIDNeverShareADeduplicationID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpapi.Config{})
	for range 100 {
		post(w, eventsPath, `{"type":"RESEND"}`, nil)
	}
	if got := len(w.queue.sent); got != 100 {
		t.Fatalf("expected 100 events in the queue, got %d", got)
	}
	for _, message := range w.queue.sent {
		if !sqsDeduplicationID.MatchString(message.DeduplicationID) || string(message.Body) != `{"type":"RESEND"}` {
			t.Fatalf("got %q under %q", message.Body, message.DeduplicationID)
		}
	}
}
