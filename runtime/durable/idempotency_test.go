package durable_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/internal/reserved"
	"github.com/settle-run/settle/runtime/statechart"
)

// sqsDeduplicationID matches the values that SQS accepts as MessageDeduplicationId (Amazon SQS API Reference,
// SendMessage).
var sqsDeduplicationID = regexp.MustCompile("^[!-~]{1,128}$")

const cancel = `{"type":"CANCEL"}`

// deduplicationID returns the deduplication ID of an event to an instance.
func deduplicationID(t interface{ Fatal(...any) }, to instances.ID, eventID, event string) string {
	got, err := durable.DeduplicationID(to, eventID, []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAProducersDeduplicationIDIsReadableWhereSQSAllows(t *testing.T) {
	t.Parallel()
	to := instances.ID{Machine: "signup", ID: "42"}
	digest, err := canonicaljson.EventDigest([]byte(cancel))
	if err != nil {
		t.Fatal(err)
	}
	prefix := "$id/signup/42/" + digest[:32] + "/"
	for id, want := range map[string]string{
		"order-7":                            prefix + "order-7",
		"a/b":                                prefix + "a/b",
		strings.Repeat("i", 128-len(prefix)): prefix + strings.Repeat("i", 128-len(prefix)),
		"with space":                         "$id-sha256/",
		"naïve":                              "$id-sha256/",
		"\x7f":                               "$id-sha256/",
		strings.Repeat("i", 129-len(prefix)): "$id-sha256/",
	} {
		got := deduplicationID(t, to, id, cancel)
		if !strings.HasPrefix(got, want) || !sqsDeduplicationID.MatchString(got) {
			t.Errorf("%q: expected %q, got %q", id, want, got)
		}
	}
}

// Two events share a deduplication ID only if they share instance, ID and body. The deduplication ID of a producer's
// event never equals the event's ID: the loop would mistake an event with equal IDs for a send of an instance.
func TestAProducersDeduplicationIDDistinguishesInstancesIDsAndBodies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The alphabet is small, so that concatenated parts are likely to collide.
		name := rapid.StringMatching(`[a/ ]{1,3}|a{40,130}|\$id/a/a/[0-9a-f]{32}/a`)
		part := rapid.StringMatching(`[ab$]{1,3}|a{40,60}`)
		body := rapid.SampledFrom([]string{cancel, `{"type":"PLACE"}`})
		type sent struct {
			to       instances.ID
			id, body string
		}
		draw := func(who string) (s sent, id string) {
			s = sent{instances.ID{Machine: part.Draw(t, who+" machine"), ID: part.Draw(t, who+" id")}, name.Draw(t, who+" event"), body.Draw(t, who+" body")}
			id = deduplicationID(t, s.to, s.id, s.body)
			if !sqsDeduplicationID.MatchString(id) || id == s.id || !strings.HasPrefix(id, "$id") {
				t.Fatalf("%+v has %q", s, id)
			}
			return s, id
		}
		a, aID := draw("a")
		b, bID := draw("b")
		if same := a == b; same != (aID == bID) {
			t.Fatalf("%+v has %q, %+v has %q", a, aID, b, bID)
		}
	})
}

func TestNoMachineMayHaveTheIDThatReservedEventIDsAreStoredUnder(t *testing.T) {
	t.Parallel()
	machine := durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: reserved.Idempotency, Version: 1, Initial: "on", States: []statechart.State[struct{}]{{ID: "on", Tags: []string{statechart.Settled}}},
	}), durable.MachineConfig{})
	if _, err := durable.NewMachines(machine); !errors.Is(err, durable.ErrReserved) || !strings.Contains(err.Error(), reserved.Idempotency) {
		t.Errorf("expected ErrReserved and the ID, got %v", err)
	}
}
