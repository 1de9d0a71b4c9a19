package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// record is an instance with something in every place; its snapshot holds a secret where later
// versions will hold some.
func record() durable.Record {
	return durable.Record{
		Instance: durable.InstanceID{Machine: "pipeline", ID: "7"}, Revision: 9,
		State: []string{"a.waiting", "b.calling"}, Status: statechart.Active,
		CreatedAt: noon.Add(-48 * time.Hour), UpdatedAt: noon.Add(-time.Minute), ExpireAt: noon.Add(24 * time.Hour),
		Snapshot: json.RawMessage(`{"machine": "pipeline", "version": 3, "status": "active", "value": {"a": "waiting", "b": "calling"},
			"context": {"n": 1}, "tags": ["slow"], "steps": 12, "tokens": {"main": {"token": "SECRET"}},
			"timers": {"9.1": {"state": "a.waiting", "after": "late", "at": "2026-01-03T12:00:00Z"}, "9.0": {"state": "a", "after": "soon", "at": "2026-01-02T12:00:30Z"}},
			"services": {"9.2": {"id": "b.calling", "state": "b.calling", "service": "callVendor", "attempt": 2}}}`),
		Watermark: map[string]string{"arn": "1"}, RecentEvents: []string{"recent-1"},
		Outbox:  []statechart.Effect{{ID: "9.0", Kind: statechart.Schedule}},
		Ignored: 2, Error: &durable.Failure{At: noon.Add(-2 * time.Hour), Event: "GO", Message: "wrong payload"},
		History: []durable.Transition{
			{At: noon.Add(-time.Hour), Event: "GO", From: []string{"start"}, To: []string{"a.waiting", "b.calling"}},
			{At: noon.Add(-time.Minute), Event: "NOISE", From: []string{"a.waiting", "b.calling"}, To: []string{"a.waiting", "b.calling"}, Ignored: true},
		},
	}
}

func TestTextShowsWhatAnInstanceWaitsFor(t *testing.T) {
	t.Parallel()
	v, err := Of(record(), []string{"GO", "STOP"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := v.WriteText(&out, console.Style{}, noon.In(time.FixedZone("CET", 3600))); err != nil {
		t.Fatal(err)
	}
	want := `pipeline/7
  state     a.waiting, b.calling
  since     2026-01-02 12:00:00 CET (1h00m ago)
  status    active, not settled: its next events wait in the queue
  tags      slow
  next      GO, STOP
  timers    after soon in a: 2026-01-02 13:00:30 CET (in 30s)
            after late in a.waiting: 2026-01-03 13:00:00 CET (in 24h00m)
  services  callVendor in b.calling, attempt 2
  context   {
              "n": 1
            }
  parked    GO, 2h00m ago: wrong payload
  ignored   2 so far, for want of a transition
  stored    revision 9, 1m00s ago, version 3 of pipeline
  expires   2026-01-03 13:00:00 CET (in 24h00m)
  history   01-02 12:00:00.000  GO     start → a.waiting, b.calling
            01-02 12:59:00.000  NOISE  ignored in a.waiting, b.calling
`
	if out.String() != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, out.String())
	}
}

func TestNoSecretAndNoBookkeepingIsShown(t *testing.T) {
	t.Parallel()
	v, err := Of(record(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := v.WriteText(&text, console.Style{}, noon); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"SECRET", "token", "watermark", "recent", "outbox"} {
		if strings.Contains(strings.ToLower(text.String()+string(asJSON)), strings.ToLower(secret)) {
			t.Errorf("expected nothing of %q, got:\n%s\n%s", secret, text.String(), asJSON)
		}
	}
}

func TestSinceIsWhenTheStateWasEntered(t *testing.T) {
	t.Parallel()
	created, at := noon.Add(-time.Hour), noon.Add(-time.Minute)
	a, b := []string{"a"}, []string{"b"}
	for _, c := range []struct {
		name    string
		history []durable.Transition
		want    time.Time
	}{
		{"no history", nil, created},
		{"entered, then noise", []durable.Transition{{At: at, From: b, To: a}, {At: noon, From: a, To: a, Ignored: true}}, at},
		{"longer than the history tells", []durable.Transition{{At: at, From: a, To: a, Ignored: true}}, time.Time{}},
	} {
		if got := since(durable.Record{State: a, CreatedAt: created, History: c.history}); !got.Equal(c.want) {
			t.Errorf("%s: expected %v, got %v", c.name, c.want, got)
		}
	}
}

func TestUnreadableSnapshotIsAnError(t *testing.T) {
	t.Parallel()
	broken := record()
	broken.Snapshot = json.RawMessage(`{"timers": 1}`)
	if _, err := Of(broken, nil); err == nil || !strings.Contains(err.Error(), "reading the snapshot of pipeline/7 at revision 9") {
		t.Errorf("expected an error that names the instance, got %v", err)
	}
}
