package recording_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/recording"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	paying   = `{"type": "PAY", "amount": 5, "email": "ada@example.com", "card": {"number": "4111", "csc": 123}, "$task": {"token": "secret"}}`
	shipping = `{"type": "SHIP", "$id": "s1"}`
	noting   = `{"type": "NOTE"}`
)

// whole commits a whole life of an instance: a deferred event, a failed and a successful service, and an event that nothing
// handles.
func (c *consumer) whole() {
	c.commit(shipping)
	c.commit(paying, "failed")
	c.commit(noting, paying)
	c.commit("done R1")
}

func TestARunHasAllStepsFromTheStart(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.whole()
	c.begin("order/2")
	c.commit(noting)
	c.commit("timer")
	found := c.played()
	if len(found) != 2 || found[0].Base != nil || found[1].Base != nil {
		t.Fatalf("expected two runs without a base, got %s", text(t, found))
	}
	if got, want := types(found[0]), "settle.start SHIP PAY error.invoke.charge NOTE PAY done.invoke.charge"; got != want {
		t.Errorf("got the steps %s, want %s", got, want)
	}
	if got, want := types(found[1]), "settle.start NOTE after expiry"; got != want {
		t.Errorf("got the steps %s, want %s", got, want)
	}
	// The deferred event follows the result of the service in the same step.
	last := found[0].Steps[6].Outcome
	want := `{"state":["shipped"],"status":"done","output":{"amount":5,"email":"ada@example.com","receipt":"R1"},"effects":[{"id":"","kind":"send","to":"warehouse/1","event":{"amount":5,"type":"PACK"}}]}`
	if got := text(t, last); got != want {
		t.Errorf("got the last outcome %s, want %s", got, want)
	}
	if strings.Contains(c.log.String(), "secret") {
		t.Errorf("expected no task token in the log, got %s", c.log)
	}
	if !strings.Contains(c.log.String(), `"id":"s1"`) {
		t.Errorf("expected the ID of the event in the log, got %s", c.log)
	}
}

func TestAGapBeginsAnotherRun(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.whole()
	c.begin("order/2")
	c.commit(shipping)
	c.commit(noting)
	lines := strings.SplitAfter(c.log.String(), "\n")
	if got := types(runs(t, lines[4]+lines[5]+lines[5])[0]); got != "settle.start SHIP NOTE" {
		t.Errorf("got the steps %s of a line that came twice", got)
	}
	// The second line is lost. The third one comes first and twice.
	found := runs(t, lines[2]+lines[2]+lines[0]+lines[3])
	if len(found) != 2 || found[0].Base != nil || found[1].Base == nil {
		t.Fatalf("expected a run from the start and a run with a base, got %s", text(t, found))
	}
	if got := types(found[0]) + ", " + types(found[1]); got != "settle.start SHIP, done.invoke.charge" {
		t.Errorf("got the steps %s", got)
	}
	if err := found[1].Play(orders(t, ""), 0); err != nil {
		t.Error(err)
	}
	// An instance that ignored its first event has taken no step since its start.
	c.begin("order/3")
	c.commit(noting)
	c.commit(paying)
	lines = strings.SplitAfter(c.log.String(), "\n")
	if got := runs(t, lines[7]); len(got) != 0 {
		t.Errorf("expected no start in the second commit, got %s", text(t, got))
	}
	if got := runs(t, lines[1]); len(got) != 0 {
		t.Errorf("expected no run without a step after its base, got %s", text(t, got))
	}
}

func TestOnlyTheSampleIsRecorded(t *testing.T) {
	t.Parallel()
	const all = 2000
	c := newConsumer(t, recording.Config{Share: 0.25})
	for i := range all {
		c.begin(fmt.Sprint("order/", i))
		c.commit(noting)
		c.commit(noting)
	}
	found := runs(t, c.log.String())
	if len(found) < all/5 || len(found) > all*3/10 {
		t.Errorf("expected about a quarter of %d instances, got %d", all, len(found))
	}
	for _, run := range found {
		if len(run.Steps) != 3 {
			t.Fatalf("expected both commits of each instance of the sample, got %s", text(t, run))
		}
	}
}

// redactedForm matches the form of the redacted values.
var redactedForm = regexp.MustCompile(`^[a-f]{3}@[a-f][g-z][a-f][g-z]{3}[a-f]\.[a-f][g-z]{2} \d{4} 1\d\d [G-Z]\d$`)

func TestRedactedValuesKeepTheirFormAndTheirEquality(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{Redact: []string{"EMAIL", "card.number", "card.csc", "output.number", "receipt"}, Key: []byte("a key")})
	c.whole()
	c.begin("order/2")
	c.commit(strings.ReplaceAll(paying, "ada", "dad"))
	log := c.log.String()
	for _, secret := range []string{"ada@example.com", "dad@example.com", "4111", "123", "R1"} {
		if strings.Contains(log, `"`+secret) || strings.Contains(log, ":"+secret) {
			t.Errorf("expected no %s in the log, got %s", secret, log)
		}
	}
	run := c.played()[0]
	var body, other pay
	var result receipt
	var output order
	for text, into := range map[*json.RawMessage]any{&run.Steps[2].Body: &body, &c.played()[1].Steps[1].Body: &other, &run.Steps[6].Payload: &result, &run.Steps[6].Outcome.Output: &output} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(body.Email, " ", body.Card["number"], " ", body.Card["csc"], " ", result.Number); !redactedForm.MatchString(got) {
		t.Errorf("expected values of the same form, got %s", got)
	}
	if body.Email == other.Email || body.Card["number"] != other.Card["number"] {
		t.Errorf("expected equal replacements of equal values, and others of other values, got %+v and %+v", body, other)
	}
	if want := (order{5, body.Email, result.Number}); output != want {
		t.Errorf("got the output %+v, want %+v", output, want)
	}
	if _, err := recording.New(slog.Default(), recording.Config{Share: 1, Redact: []string{"email"}}); err == nil {
		t.Error("expected an error without a key")
	}
}

// encoding/json reads the last of two keys that differ only in case.
func TestTheOrderOfKeysStays(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{Redact: []string{"card.number"}, Key: []byte("a key")})
	c.commit(`{"type": "PAY", "$id": "p1", "amount": 1, "Amount": 500, "card": {"z": ["1", {}, []], "number": "90125", "a": null}, "card.number": "7012345"}`)
	log := c.log.String()
	for _, want := range []string{`"amount":1,"Amount":500,"card":{"z":["1",{},[]],"number":"`, `","a":null},"card.number":"`} {
		if !strings.Contains(log, want) {
			t.Errorf("expected %s in the log, got %s", want, log)
		}
	}
	if strings.Contains(log, `"card.number":"7012345"`) || strings.Contains(log, `"number":"90125"`) {
		t.Errorf("expected other numbers in the log, got %s", log)
	}
}

func TestRedactedNumbersFitIntoTheirTypes(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{Redact: []string{"number"}, Key: []byte("a key")})
	replaced := func(number string) string {
		before := c.log.Len()
		c.commit(`{"type": "PAY", "card": {"number": ` + number + `}}`)
		return regexp.MustCompile(`"number":([^}]*)`).FindStringSubmatch(c.log.String()[before:])[1]
	}
	for i := range 28 {
		var small int8
		if got := replaced(fmt.Sprint(-100 - i)); json.Unmarshal([]byte(got), &small) != nil || small > -100 {
			t.Errorf("expected a negative int8 of three digits for %d, got %s", -100-i, got)
		}
	}
	for _, equal := range [][2]string{{"100", "1e2"}, {"-250", "-2.50E2"}, {"7.0", "7"}, {"0", "0.0"}, {"0", "-0"}, {"12.50", "12.5"}} {
		if a, b := replaced(equal[0]), replaced(equal[1]); a != b {
			t.Errorf("expected equal replacements of %q, got %s and %s", equal, a, b)
		}
	}
}

func TestDigitsAndMarksOfAllScriptsAreRedacted(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{Redact: []string{"email"}, Key: []byte("a key")})
	c.commit(strings.Replace(paying, "ada@example.com", "٠١٢ ि Ⅷ", 1))
	if log := c.log.String(); strings.ContainsAny(log, "٠١٢िⅧ") || !strings.Contains(log, "PAY") {
		t.Errorf("expected no character of the email in the log, got %s", log)
	}
}

// unwritable is a payload whose error quotes its data.
type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) {
	return nil, errors.New("cannot encode ada@example.com")
}

func TestAnErrorWithDataIsNotLoggedUnderARule(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{Redact: []string{"email"}, Key: []byte("a key")})
	c.commit(paying)
	before := c.log.Len()
	c.recorder.Committed(t.Context(), durable.Committed{
		Instance: "order/1", Record: c.record, Transitions: []instances.Transition{{}}, Events: []statechart.Event{{Payload: unwritable{}}}, Bodies: []string{""},
	})
	if line := c.log.String()[before:]; strings.Contains(line, "ada@") || !strings.Contains(line, "commit not recorded") {
		t.Errorf("expected a warning without data, got %s", line)
	}
}

// TestLogsAreReadInAllTheirForms reads the forms of `aws logs tail --format json`, `aws logs filter-log-events` and an
// export to S3.
func TestLogsAreReadInAllTheirForms(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.whole()
	plain := "START RequestId: 1\n{\"msg\":\"event applied\"}\n" + c.log.String()
	var tail, events, export []string
	for line := range strings.Lines(c.log.String()) {
		pretty := indented(t, line)
		tail = append(tail, "2026-01-02T03:04:05.123000+00:00 "+pretty)
		events = append(events, fmt.Sprintf(`{"logStreamName": "2026/01/02/[$LATEST]a", "message": %s}`, text(t, line)))
		export = append(export, "2026-01-02T03:04:05.123Z "+line)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(writer, strings.Join(export, ""))
	_ = writer.Close()
	for name, log := range map[string]string{
		"tail":              strings.Join(tail, "\n"),
		"filter-log-events": indented(t, `{"events": [`+strings.Join(events, ",")+`], "searchedLogStreams": []}`),
		"export":            zipped.String(),
		"another program":   "starting with {\n" + c.log.String() + "config {\n",
	} {
		if got, want := text(t, runs(t, log)), text(t, runs(t, plain)); got != want || len(want) < 100 {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestWrongLogsAreRefused(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, recording.Config{})
	c.commit(paying)
	line := c.log.String()
	for log, want := range map[string]string{
		line[:len(line)/2]: "wrong format: line 1: expected the JSON of a commit, got one that is cut off or damaged: ",
		"\n" + strings.Replace(line, `"format":1`, `"format":2`, 1): "wrong format: line 2: expected a commit in the format 1, got the format 2: ",
		strings.Replace(line, `"revision":1`, `"revision":"2"`, 1):  "wrong format: line 1: json: cannot unmarshal string",
		indented(t, line)[:200]: "wrong format: line 1: expected a complete JSON object, got one that is cut off",
		strings.Replace(line, `"instance":"order/1"`, `"instance":"1"`, 1): "wrong format: not the name of an instance: ",
		strings.Replace(line, `"steps":2`, `"steps":"2"`, 1):               "wrong format: order/1: reading the snapshot of revision 1: ",
		"\x1f\x8b\x00": "wrong format: ",
	} {
		var assembly recording.Assembly
		var failed error
		for commit, err := range recording.Read(strings.NewReader(log)) {
			if err == nil {
				err = assembly.Add(commit)
			}
			failed = errors.Join(failed, err)
		}
		if _, err := assembly.Runs(); failed == nil {
			failed = err
		}
		if failed == nil || !errors.Is(failed, recording.ErrFormat) || !strings.Contains(failed.Error(), want) {
			t.Errorf("expected %q of %.100q, got %v", want, log, failed)
		}
	}
}
