package enrich_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

var update = flag.Bool("update", false, "write chart.svg")

var callbacks = enrich.Callbacks{Base: "https://api.example.com/", Key: []byte("sixteen bytes or more")}

// provider is a fake that records its jobs, and gives them the IDs job-1, job-2 and so on.
type provider struct {
	outcomes *statecharttest.Outcomes
	jobs     []enrich.Job
}

func (p *provider) Submit(ctx context.Context, job enrich.Job) (string, error) {
	p.jobs = append(p.jobs, job)
	if err := p.outcomes.Next(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("job-%d", len(p.jobs)), nil
}

func newProvider(t *testing.T, outcomes ...string) *provider {
	t.Helper()
	parsed, err := statecharttest.NewOutcomes(outcomes...)
	if err != nil {
		t.Fatal(err)
	}
	return &provider{outcomes: parsed}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[enrich.Context] {
		return enrich.New(&provider{outcomes: setup.Outcomes("submit")}, callbacks, enrich.Config{})
	}).Require(t)
}

var company = enrich.Enrich{Subject: "https://example.com/company/7", Reference: "demo-7"}

func TestEveryOutcomeCanBeReached(t *testing.T) {
	t.Parallel()
	events := []statecharttest.Event{
		{Type: "ENRICH", Payload: company},
		{Type: "SUCCEEDED", Payload: enrich.Succeeded{Data: json.RawMessage(`{"name":"Acme"}`)}},
		{Type: "FAILED", Payload: enrich.Failure{Error: "gone"}},
		{Type: enrich.AliasTaken, Payload: enrich.TakenAlias{Alias: "enricher/job-1"}},
	}
	final, err := statecharttest.FinalPaths(enrich.New(numbered{}, callbacks, enrich.Config{}), statecharttest.PathConfig[enrich.Context]{
		Events: events,
		Invariant: func(s statechart.Snapshot[enrich.Context]) error {
			if s.Status != statechart.Done {
				return nil
			}
			var output enrich.Output
			if err := json.Unmarshal(s.Output, &output); err != nil {
				return err
			}
			found := s.Matches("succeeded")
			if !s.Matches(output.Outcome) || found != (s.Context.Data != nil) || found == (output.Cause != "") || found == s.HasTag(enrich.Failed) {
				return fmt.Errorf("in %v: expected the outcome's name, and data or else a cause and the tag, got %+v", s.State(), output)
			}
			return nil
		},
	})
	if err != nil {
		t.Error(err)
	}
	if len(final) != 5 {
		t.Errorf("want a path to each of succeeded, failed, expired, not_accepted and job_mixed_up, got %v", final)
	}
}

// numbered is a stateless third party.
type numbered struct{}

func (numbered) Submit(context.Context, enrich.Job) (string, error) { return "job-1", nil }

func TestAttemptsShareTheIdempotencyKeyTheAddressAndTheDeadline(t *testing.T) {
	t.Parallel()
	third := newProvider(t, "fail", "hang", "ok")
	p := statecharttest.Play(t, enrich.New(third, callbacks, enrich.Config{}), statecharttest.Config{Instance: "enrich/demo-7"})
	start := p.Now()
	p.Send("ENRICH", company)
	want := enrich.Job{
		IdempotencyKey: "enrich/demo-7/2.0", Subject: company.Subject, Deadline: start.Add(30 * time.Minute),
		CallbackURL: callbacks.Address("enrich/demo-7", start.Add(30*time.Minute)),
	}
	if diff := cmp.Diff([]enrich.Job{want, want, want}, third.jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestTheSnapshotDoesNotContainTheCallbackKey(t *testing.T) {
	t.Parallel()
	third := newProvider(t)
	p := statecharttest.Play(t, enrich.New(third, callbacks, enrich.Config{}), statecharttest.Config{Instance: "enrich/demo-7"})
	p.Send("ENRICH", company)
	address := third.jobs[0].CallbackURL
	snapshot, err := json.Marshal(p.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if key := address[strings.LastIndexByte(address, '/')+1:]; strings.Contains(string(snapshot), key) {
		t.Errorf("the snapshot contains the key of the address:\n%s", snapshot)
	}
}

func TestAJobIDThatCannotBeAnAliasIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a b", "naïve", "line\nbreak", strings.Repeat("j", enrich.JobIDBytesMax+1)} {
		p := statecharttest.Play(t, enrich.New(fixed(id), callbacks, enrich.Config{}), statecharttest.Config{Instance: "enrich/demo-7"})
		p.Send("ENRICH", company)
		if got := p.State(); got != "not_accepted" || !strings.Contains(p.Snapshot().Context.Cause, "job ID") {
			t.Errorf("%q: want not_accepted with a cause, got %s: %s", id, got, p.Snapshot().Context.Cause)
		}
	}
	if longest := enrich.Alias(strings.Repeat("j", enrich.JobIDBytesMax)); len(longest) > statechart.AliasBytesMax {
		t.Errorf("want the longest job ID to be a valid alias, got one of %d bytes", len(longest))
	}
}

func TestNoJobIsSubmittedWithoutACallbackAddress(t *testing.T) {
	t.Parallel()
	third := newProvider(t)
	p := statecharttest.Play(t, enrich.New(third, enrich.Callbacks{}, enrich.Config{}), statecharttest.Config{Instance: "enrich/demo-7"})
	p.Send("ENRICH", company)
	if got := p.State(); got != "not_accepted" || len(third.jobs) > 0 || !strings.Contains(p.Snapshot().Context.Cause, "enrich.Callbacks") {
		t.Errorf("want not_accepted, no jobs and a cause, got %s, %d jobs and %q", got, len(third.jobs), p.Snapshot().Context.Cause)
	}
}

// fixed is a third party that gives every job the same ID.
type fixed string

func (f fixed) Submit(context.Context, enrich.Job) (string, error) { return string(f), nil }

func TestConfigTunesTheWait(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, enrich.New(newProvider(t), callbacks, enrich.Config{Wait: time.Hour, Grace: time.Second}), statecharttest.Config{Instance: "enrich/demo-7"})
	p.Send("ENRICH", company)
	p.Advance(time.Hour)
	if got := p.State(); got != "waiting" {
		t.Errorf("at the deadline: want waiting, got %s", got)
	}
	p.Advance(time.Second)
	if got := p.State(); got != "expired" {
		t.Errorf("a second later: want expired, got %s", got)
	}
}

func TestInvalidConfigPanicsBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]enrich.Config{
		"enrich.Config: expected a Wait of at least 1s, got -1s":    {Wait: -time.Second},
		"enrich.Config: expected a positive Grace, got -1s":         {Grace: -time.Second},
		"enrich.Config: expected a positive SubmitTimeout, got -1s": {SubmitTimeout: -time.Second},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("expected the panic %q, got %q", want, got)
				}
			}()
			enrich.New(newProvider(t), callbacks, config)
		}()
	}
}

func TestOnlyCreatedAddressesAreValid(t *testing.T) {
	t.Parallel()
	deadline := time.Unix(1_800_000_000, 0)
	address, err := url.Parse(callbacks.Address("enrich/demo-7", deadline))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(address.Path, "/")
	if got := strings.Join(parts[:5], "/"); address.Host != "api.example.com" || got != "/webhooks/enricher/demo-7/1800000000" || len(parts) != 6 || len(parts[5]) != 43 {
		t.Fatalf("got the address %s", address)
	}
	key := parts[5]
	if got, ok := callbacks.Verify("enrich/demo-7", "1800000000", key); !ok || !got.Equal(deadline) {
		t.Errorf("want %s, got %s, %t", deadline, got, ok)
	}
	other := enrich.Callbacks{Base: callbacks.Base, Key: []byte("another key of bytes")}
	for name, got := range map[string]bool{
		"another instance":      verifies(callbacks, "enrich/demo-8", "1800000000", key),
		"a later deadline":      verifies(callbacks, "enrich/demo-7", "1900000000", key),
		"another spelling":      verifies(callbacks, "enrich/demo-7", "+1800000000", key),
		"a key cut short":       verifies(callbacks, "enrich/demo-7", "1800000000", key[:42]),
		"no key":                verifies(callbacks, "enrich/demo-7", "1800000000", ""),
		"made with another key": verifies(other, "enrich/demo-7", "1800000000", key),
		"made with no key":      verifies(enrich.Callbacks{}, "enrich/demo-7", "1800000000", key),
	} {
		if got {
			t.Errorf("%s: want the address refused", name)
		}
	}
	if verifies(enrich.Callbacks{}, "enrich/demo-7", "1", lastPart(enrich.Callbacks{}.Address("enrich/demo-7", time.Unix(1, 0)))) {
		t.Error("want no address verified without a key")
	}
}

// TestACallbackIsAcceptedThroughoutARotation rotates the key from O to N. During each deployment, even one that is
// rolled back, the consumer and the gateway may each have the old or the new keys. The time between deployments is as
// long as callbacks are accepted, so no address from before the rotation is valid at the end.
func TestACallbackIsAcceptedThroughoutARotation(t *testing.T) {
	t.Parallel()
	with := func(key, previous string) enrich.Callbacks {
		return enrich.Callbacks{Base: callbacks.Base, Key: []byte(key), PreviousKey: []byte(previous)}
	}
	const older, o, n = "the key before the old key", "the old key, from before", "the new key, from now on"
	before, during, after := with(o, ""), with(n, o), with(n, "")
	for name, c := range map[string]struct {
		consumer, gateway enrich.Callbacks
		want              bool
	}{
		"before":                                {before, before, true},
		"the consumer begins first":             {during, before, true},
		"the gateway begins first":              {before, during, true},
		"both":                                  {during, during, true},
		"the consumer ends first":               {after, during, true},
		"the gateway ends first":                {during, after, true},
		"after":                                 {after, after, true},
		"accept the new key first":              {before, with(o, n), true},
		"then sign with it":                     {during, with(o, n), true},
		"then sign with it, the gateway first":  {with(o, n), during, true},
		"an address from before, after":         {before, after, false},
		"an address from before the last one":   {with(older, ""), during, false},
		"no previous key, the consumer first":   {after, before, false},
		"an empty previous key accepts nothing": {with("", ""), during, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.consumer.Address("enrich/demo-7", time.Unix(1800000000, 0))
			if got := verifies(c.gateway, "enrich/demo-7", "1800000000", lastPart(address)); got != c.want {
				t.Errorf("accepted: got %t, want %t for %s", got, c.want, address)
			}
			if verifies(c.gateway, "enrich/demo-8", "1800000000", lastPart(address)) {
				t.Error("want the address refused for another instance")
			}
		})
	}
	key := lastPart(after.Address("enrich/demo-7", time.Unix(1800000000, 0)))
	if verifies(during, "enrich/demo-7", "1800000000", "x.x."+key) || !verifies(during, "enrich/demo-7", "1800000000", "x."+key) {
		t.Error("want at most two signatures tried")
	}
}

func lastPart(address string) string { return address[strings.LastIndexByte(address, '/')+1:] }

func verifies(c enrich.Callbacks, instance, until, key string) bool {
	_, ok := c.Verify(instance, until, key)
	return ok
}

func TestAnAddressLeadsBackToItsInstance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[!-.0-~]{1,20}`).Draw(t, "id")
		address, err := url.Parse(callbacks.Address("enrich/"+id, time.Unix(7, 0)))
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(address.EscapedPath(), "/")
		got, err := url.PathUnescape(parts[3])
		if err != nil || got != id || len(parts) != 6 || address.RawQuery != "" || address.Fragment != "" {
			t.Fatalf("%q: got %s", id, address)
		}
	})
}

func TestCallbacksAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		callbacks enrich.Callbacks
		want      string
	}{
		"good":                 {callbacks, ""},
		"no base":              {enrich.Callbacks{Key: callbacks.Key}, "expected a Base"},
		"not a URL":            {enrich.Callbacks{Base: "api.example.com", Key: callbacks.Key}, "expected a Base"},
		"a short key":          {enrich.Callbacks{Base: callbacks.Base, Key: make([]byte, 15)}, "at least 16 bytes, got 15"},
		"a short previous key": {enrich.Callbacks{Base: callbacks.Base, Key: callbacks.Key, PreviousKey: make([]byte, 15)}, "PreviousKey of at least 16 bytes, or none, got 15"},
	} {
		err := c.callbacks.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
	}
}

func TestACallbackBecomesAnEvent(t *testing.T) {
	t.Parallel()
	chart := enrich.New(numbered{}, callbacks, enrich.Config{})
	for body, want := range map[string]string{
		`{"jobId":"7","success":true,"data":{"name":"Acme"},"took":3}`: `{"type":"SUCCEEDED","data":{"name":"Acme"}}`,
		`{"jobId":"7","success":true,"data":[]}`:                       `{"type":"SUCCEEDED","data":[]}`,
		`{"jobId":"7","success":true,"data":null}`:                     `{"type":"FAILED","error":"the third party reported success without data"}`,
		`{"jobId":"7","success":true}`:                                 `{"type":"FAILED","error":"the third party reported success without data"}`,
		`{"jobId":"7","success":false,"error":"gone"}`:                 `{"type":"FAILED","error":"gone"}`,
		`{"jobId":"7","success":false,"data":{},"error":{"code":9}}`:   `{"type":"FAILED","error":"{\"code\":9}"}`,
		`{"jobId":"7"}`:            `{"type":"FAILED","error":"the third party gave no reason"}`,
		`{"jobId":"7","error":""}`: `{"type":"FAILED","error":"the third party gave no reason"}`,
	} {
		alias, event, err := enrich.ReadCallback([]byte(body))
		if err != nil || alias != "enricher/7" || string(event) != want {
			t.Errorf("%s: want %s for enricher/7, got %s for %s, %v", body, want, event, alias, err)
		}
		if _, err := chart.Decode(event); err != nil {
			t.Errorf("%s: the chart refuses the event: %v", body, err)
		}
	}
	large := `{"jobId":"7","success":true,"data":"` + strings.Repeat("x", enrich.DataBytesMax-1) + `"}`
	if _, event, err := enrich.ReadCallback([]byte(large)); err != nil || string(event) != `{"type":"FAILED","error":"the third party sent 98305 bytes of data, but the limit is 98304"}` {
		t.Errorf("too much data: got %.200s, %v", event, err)
	}
	if _, event, err := enrich.ReadCallback([]byte(strings.Replace(large, "xx", "x", 1))); err != nil || !strings.HasPrefix(string(event), `{"type":"SUCCEEDED"`) {
		t.Errorf("data at the limit: got %.200s, %v", event, err)
	}
	for body, want := range map[string]string{
		`jobId=7`:                       `expected a JSON object, got 7 bytes that are not JSON at byte 1: send one such as {"jobId": "7", "success": true, "data": {}}`,
		``:                              `expected a JSON object, got 0 bytes that are not JSON at byte 0: send one such as {`,
		`{"jobId":"7"`:                  "got 12 bytes that are not JSON at byte 12: send one",
		`[]`:                            "expected a JSON object: send one such as",
		`{"success":true}`:              "expected a job ID",
		`{"jobId":""}`:                  "expected a job ID",
		`{"jobId":"a b"}`:               "expected a job ID",
		`{"jobId":7}`:                   `expected a string under "jobId", got a number: send an object such as {"jobId": "7", "success": true, "data": {}}`,
		`{"jobId":"7","success":"yes"}`: `expected a bool under "success", got a string: send an object such as`,
	} {
		_, _, err := enrich.ReadCallback([]byte(body))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), enrich.ErrCallback.Error()) {
			t.Errorf("%s: want ErrCallback with %q, got %v", body, want, err)
		}
	}
}

func TestTheDrawingShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "chart.svg", chartsvg.Draw(enrich.New(numbered{}, callbacks, enrich.Config{}).Outline(), chartsvg.Options{}), *update)
}
