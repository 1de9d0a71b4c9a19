package durable_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// sqsDeduplicationID matches the values that SQS accepts as MessageDeduplicationId (Amazon SQS API Reference,
// SendMessage).
var sqsDeduplicationID = regexp.MustCompile("^[!-~]{1,128}$")

// cancel is an event.
const cancel = `{"type":"CANCEL"}`

// deduplicationID returns the deduplication ID of an event to an instance.
func deduplicationID(t interface{ Fatal(...any) }, to durable.InstanceID, eventID, event string) string {
	got, err := durable.DeduplicationID(to, eventID, []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAProducersDeduplicationIDIsReadableWhereSQSAllows(t *testing.T) {
	t.Parallel()
	to := durable.InstanceID{Machine: "signup", ID: "42"}
	digest, err := durable.EventDigest([]byte(cancel))
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

// Two events share a deduplication ID only if they share instance, ID and body. No event gets its own ID as its
// deduplication ID, because that is how the loop recognises events sent by instances.
func TestAProducersDeduplicationIDDistinguishesInstancesIDsAndBodies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The alphabet is small, so that concatenated parts are likely to collide.
		name := rapid.StringMatching(`[a/ ]{1,3}|a{40,130}|\$id/a/a/[0-9a-f]{32}/a`)
		part := rapid.StringMatching(`[ab$]{1,3}|a{40,60}`)
		body := rapid.SampledFrom([]string{cancel, `{"type":"PLACE"}`})
		type sent struct {
			to       durable.InstanceID
			id, body string
		}
		draw := func(who string) (s sent, id string) {
			s = sent{durable.InstanceID{Machine: part.Draw(t, who+" machine"), ID: part.Draw(t, who+" id")}, name.Draw(t, who+" event"), body.Draw(t, who+" body")}
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

func TestTheDigestOfAnEventIgnoresHowItIsSpelled(t *testing.T) {
	t.Parallel()
	const event = `{"type":"PAY","cents":1050,"big":12345678901234567890123456789012345678901,"small":-0.00150,"to":{"a":"é","b":[1,null,true]},"zero":0}`
	want, err := durable.EventDigest([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]string{
		"white space and order":  "\n { \"zero\": 0, \"to\": {\"b\": [1, null, true], \"a\": \"é\"}, \"small\": -0.00150, \"cents\": 1050, \"big\": 12345678901234567890123456789012345678901, \"type\": \"PAY\" } ",
		"escapes":                strings.Replace(strings.Replace(event, "é", `\u00e9`, 1), "PAY", `\u0050AY`, 1),
		"spelling of numbers":    strings.NewReplacer("1050", "1.05e3", "-0.00150", "-15E-4", `"zero":0`, `"zero":-0.0e9`, "[1,", "[1.0,").Replace(event),
		"with an ID of its own":  strings.Replace(event, "{", `{"$id":"k",`, 1),
		"with its ID at the end": strings.TrimSuffix(event, "}") + `,"$id":"k"}`,
	} {
		if got, err := durable.EventDigest([]byte(same)); err != nil || got != want {
			t.Errorf("%s: expected %s, got %s, %v", name, want, got, err)
		}
	}
	for name, other := range map[string]string{
		"another value":              strings.Replace(event, "1050", "1051", 1),
		"the last of 41 digits":      strings.Replace(event, "901,", "902,", 1),
		"a power of ten":             strings.Replace(event, "1050", "10500", 1),
		"a sign":                     strings.Replace(event, "-0.00150", "0.00150", 1),
		"text in place of a number":  strings.Replace(event, "1050", `"1050"`, 1),
		"a further key":              strings.Replace(event, "{", `{"more":null,`, 1),
		"a key less":                 strings.Replace(event, `,"zero":0`, "", 1),
		"the order of a list":        strings.Replace(event, "[1,null,true]", "[null,1,true]", 1),
		"an ID further inside":       strings.Replace(event, `"a":"é"`, `"a":"é","$id":"k"`, 1),
		"another exponent":           strings.Replace(event, "1050", "1e999999999999999999999", 1),
		"and one more":               strings.Replace(event, "1050", "1e999999999999999999998", 1),
		"keys that differ in case":   strings.Replace(event, "{", `{"Cents":1050,`, 1),
		"a list in place of a value": strings.Replace(event, "1050", "[1050]", 1),
	} {
		if got, err := durable.EventDigest([]byte(other)); err != nil || got == want {
			t.Errorf("%s: expected a digest other than %s, got %s, %v", name, want, got, err)
		}
	}
}

// encoding/json decodes keys that differ only in case into one field. The last one wins, as with duplicate keys.
func TestTheDigestOfAnEventKeepsTheOrderOfKeysThatAreOneField(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"Code":1,"code":2}`, `{"code":2,"Code":1}`},
		{"{\"k\":1,\"\u212a\":2}", "{\"\u212a\":2,\"k\":1}"},
	} {
		first, firstErr := durable.EventDigest([]byte(pair[0]))
		second, secondErr := durable.EventDigest([]byte(pair[1]))
		if err := errors.Join(firstErr, secondErr); err != nil || first == second {
			t.Errorf("%s and %s: expected two digests, got %s and %s, %v", pair[0], pair[1], first, second, err)
		}
	}
}

// Two bodies with the same digest decode into the same value. Re-encoding a body with encoding/json keeps its digest.
func TestBodiesWithOneDigestDecodeIntoOneValue(t *testing.T) {
	t.Parallel()
	document := rapid.StringMatching(`\{("[ab]":(1|1\.0|10e-1|"[ab]"|\{("a":2)?\}|\[(0|null)?\])){0,1}(,"[cd]":[12]){0,2}\}`)
	rapid.Check(t, func(t *rapid.T) {
		var texts, digests [2]string
		var values [2]string
		for i := range texts {
			texts[i] = strings.Replace(document.Draw(t, "document"), "{,", "{", 1)
			var value map[string]any
			if err := json.Unmarshal([]byte(texts[i]), &value); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			values[i] = string(again)
			if digests[i], err = durable.EventDigest([]byte(texts[i])); err != nil {
				t.Fatal(err)
			}
			if got, err := durable.EventDigest(again); err != nil || got != digests[i] && !hasDuplicate(texts[i]) {
				t.Fatalf("%s and %s: expected one digest, got %s and %s, %v", texts[i], again, digests[i], got, err)
			}
		}
		if digests[0] == digests[1] && values[0] != values[1] {
			t.Fatalf("%s and %s share a digest", texts[0], texts[1])
		}
	})
}

// hasDuplicate reports whether the generated document has the key c or d twice.
func hasDuplicate(document string) bool {
	return strings.Count(document, `"c":`) > 1 || strings.Count(document, `"d":`) > 1
}

func TestOnlyAnObjectHasADigest(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "[]", `"x"`, "1", "{", `{"a":1}{}`, `{"a":}`, strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)} {
		if got, err := durable.EventDigest([]byte(wrong)); err == nil {
			t.Errorf("%.20q: expected an error, got %s", wrong, got)
		}
	}
}

func TestNoMachineMayHaveTheIDThatReservedEventIDsAreStoredUnder(t *testing.T) {
	t.Parallel()
	machine := durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: durable.IdempotencyMachine, Version: 1, Initial: "on", States: []statechart.State[struct{}]{{ID: "on", Tags: []string{statechart.Settled}}},
	}), durable.MachineConfig{})
	if _, err := durable.NewMachines(machine); !errors.Is(err, durable.ErrReserved) || !strings.Contains(err.Error(), durable.IdempotencyMachine) {
		t.Errorf("expected ErrReserved and the ID, got %v", err)
	}
}
