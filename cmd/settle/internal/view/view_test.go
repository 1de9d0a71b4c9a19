package view

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/recording"
	"github.com/settle-run/settle/runtime/statechart"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// pipelines returns the machines that host the instance returned by the function record.
func pipelines(t *testing.T) *durable.Machines {
	t.Helper()
	machines, err := durable.NewMachines(pipeline())
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

func pipeline() durable.Machine {
	type on = statechart.Transition[map[string]int]
	type after = statechart.After[map[string]int]
	settled := []string{statechart.Settled}
	call := statechart.ServiceFunc("callVendor", func(context.Context, map[string]int, statechart.Call) (int, error) { return 0, nil })
	return durable.Host(statechart.Must(statechart.Definition[map[string]int]{
		ID: "pipeline", Version: 3, Parallel: true,
		Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "STOP": statechart.NoPayload()},
		States: []statechart.State[map[string]int]{
			{ID: "a", Initial: "waiting", After: []after{{ID: "soon", Delay: time.Hour, Target: ".waiting"}},
				States: []statechart.State[map[string]int]{{ID: "waiting", Tags: settled, On: []on{{Event: "STOP", Target: "waiting"}},
					After: []after{{ID: "late", Delay: time.Hour, Target: "waiting"}}}}},
			{ID: "b", Initial: "calling", On: []on{{Event: "GO", Target: ".calling"}},
				States: []statechart.State[map[string]int]{{ID: "calling", Invoke: []statechart.Invoke[map[string]int]{
					{Service: call, OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}},
				}}, {ID: "idle", Tags: settled}}},
		},
	}), durable.MachineConfig{})
}

// record is an instance with a value in every field. SECRET marks values that must not be shown. One such value is in
// the snapshot, under a key that this version does not know.
func record() instances.Record {
	return instances.Record{
		Instance: instances.ID{Machine: "pipeline", ID: "7"}, Revision: 9,
		State: []string{"a.waiting", "b.calling"}, Status: statechart.Active,
		CreatedAt: noon.Add(-48 * time.Hour), UpdatedAt: noon.Add(-time.Minute), ExpireAt: noon.Add(24 * time.Hour),
		Snapshot: json.RawMessage(`{"machine": "pipeline", "version": 3, "status": "active", "value": {"a": "waiting", "b": "calling"},
			"context": {"n": 1}, "tags": ["slow"], "steps": 12, "tokens": {"main": {"token": "SECRET"}},
			"timers": {"9.1": {"state": "a.waiting", "after": "late", "at": "2026-01-03T12:00:00Z"}, "9.0": {"state": "a", "after": "soon", "at": "2026-01-02T12:00:30Z"}},
			"deferred": [{"id": "form\u001b-7", "event": {"type": "STOP", "code": "SECRET"}}, {"event": {"type": "GO"}}],
			"services": {"9.2": {"id": "b.calling", "state": "b.calling", "service": "callVendor", "attempt": 2, "retry_at": "2026-01-02T12:20:00Z"}}}`),
		Watermark: map[string]string{"arn": "1"}, RecentEvents: []string{"recent-1"},
		Outbox: []statechart.Effect{{ID: "9.0", Kind: statechart.Schedule}},
		Tokens: []instances.Token{
			{Key: "SECRET-key", Value: "SECRET-value", Name: "Queued", Execution: "arn:SECRET", EnteredAt: noon.Add(-time.Minute), TimeoutSeconds: 300},
			{Key: "SECRET-2", Value: "SECRET-2", Name: "In\x1bProgress", EnteredAt: noon.Add(-time.Hour)},
		},
		Ignored: 2, Skipped: 3, FailedEffects: []instances.FailedEffect{
			{ID: "SECRET-3", Kind: statechart.Send, At: noon.Add(-time.Hour), Target: "pipeline/8", Error: "no\x1bpe", Data: json.RawMessage(`{"type":"GO"}`), DataBytes: 13, Report: instances.ReportReceived},
			{ID: "SECRET-4", Kind: statechart.ClaimAlias, At: noon.Add(-time.Minute), Target: "x-7", Error: "too long", Report: instances.ReportUnsent},
			{ID: "SECRET-5", Kind: statechart.Schedule, At: noon.Add(-time.Second), Error: "denied", Report: instances.ReportSent},
			{ID: "SECRET-6", Kind: statechart.Schedule, At: noon.Add(-time.Second), Error: "denied"},
		}, Error: &instances.Failure{At: noon.Add(-2 * time.Hour), Event: "GO", Message: "wrong payload"},
		History: []instances.Transition{
			{At: noon.Add(-time.Hour), Event: "GO", From: []string{"start"}, To: []string{"a.waiting", "b.calling"}},
			{At: noon.Add(-time.Minute), Event: "NOISE", From: []string{"a.waiting", "b.calling"}, To: []string{"a.waiting", "b.calling"}, Ignored: true},
		},
	}
}

func TestTextShowsAllFieldsOfAnInstance(t *testing.T) {
	t.Parallel()
	v, err := Of(pipelines(t), record())
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
  timers    soon of a: 2026-01-02 13:00:30 CET (in 30s)
            late of a.waiting: 2026-01-03 13:00:00 CET (in 24h00m)
  services  callVendor in b.calling, attempt 2 failed, next at 2026-01-02 13:20:00 CET (in 20m00s)
  waits     a task for Queued since 2026-01-02 12:59:00 CET (1m00s ago), until 2026-01-02 13:04:00 CET (in 4m00s)
            a task for In\x1bProgress since 2026-01-02 12:00:00 CET (1h00m ago)
  deferred  STOP, ID form\x1b-7
            GO
  context   {
              "n": 1
            }
  parked    GO, 2h00m ago: wrong payload
  failed    send to pipeline/8, 1h00m ago: no\x1bpe (reported to the chart)
            alias to x-7, 1m00s ago: too long (not reported to the chart yet)
            schedule, 1s ago: denied (report sent to the chart; if this line stays, the report was parked)
            schedule, 1s ago: denied
  ignored   2 so far (no matching transition)
  skipped   3 so far (duplicates and stale timers)
  stored    revision 9, 1m00s ago, version 3 of pipeline
  expires   2026-01-03 13:00:00 CET (in 24h00m)
  history   01-02 12:00:00.000  GO     start → a.waiting, b.calling
            01-02 12:59:00.000  NOISE  ignored in a.waiting, b.calling
`
	if out.String() != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, out.String())
	}
}

func TestChildrenAndParentAreShownByTheirNames(t *testing.T) {
	t.Parallel()
	r := record()
	r.Parent = &instances.Parent{Instance: "order/1", Incarnation: 1, Child: "2.0"}
	r.Snapshot = json.RawMessage(strings.Replace(string(r.Snapshot), `"services"`, `"children": {"van": {"key": "4.0", "machine": "courier"}, "radio": {"key": "3.0", "machine": "radio", "state": "a"}}, "services"`, 1))
	v, err := Of(pipelines(t), r)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := v.WriteText(&b, console.Style{}, noon); err != nil {
		t.Fatal(err)
	}
	name := func(key, machine string) string {
		return instances.ChildName(r.Instance, r.CreatedAt, key, machine).String()
	}
	for _, line := range []string{"  children  radio: " + name("3.0", "radio") + "\n            van: " + name("4.0", "courier") + "\n", "  parent    order/1\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("want %q in\n%s", line, b.String())
		}
	}
	v.Status, v.Settled, v.Problem = statechart.Active, true, ""
	if got, want := v.settledText(), ", settled: it waits for an event, a timer or the end of a child"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if child := v.Children["radio"]; child != (instanceview.Child{Instance: name("3.0", "radio"), Key: "3.0", Machine: "radio", State: "a"}) {
		t.Errorf("the radio is shown as %+v", child)
	}
}

func TestSecretsAndBookkeepingAreNotShown(t *testing.T) {
	t.Parallel()
	v, err := Of(pipelines(t), record())
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

func TestJSONIsTheGatewaysViewWithTheReasonOfAParkedEvent(t *testing.T) {
	t.Parallel()
	shown, err := Of(pipelines(t), record())
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := instanceview.Of(pipelines(t), record())
	if err != nil {
		t.Fatal(err)
	}
	got, want := keysOf(t, shown), keysOf(t, gateway)
	parked, ok := got["parked"].(map[string]any)
	if !ok || parked["message"] != "wrong payload" {
		t.Fatalf("expected the reason beside the parked event, got %v", got["parked"])
	}
	delete(parked, "message")
	failed, ok := got["failed_effects"].([]any)
	if !ok || len(failed) != 4 || got["skipped"] != 3.0 {
		t.Fatalf("expected the failed effects and the skipped events, got %v and %v", got["failed_effects"], got["skipped"])
	}
	wantFailed := map[string]any{"kind": "send", "target": "pipeline/8", "at": "2026-01-02T11:00:00Z", "message": "no\x1bpe", "data": map[string]any{"type": "GO"}, "data_bytes": 13.0, "report": "received"}
	if !reflect.DeepEqual(failed[0], wantFailed) {
		t.Errorf("expected %v, got %v", wantFailed, failed[0])
	}
	delete(got, "failed_effects")
	delete(got, "skipped")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("expected the gateway's %v beside the reason, got %v", want, got)
	}
}

func keysOf(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestParkedEventsOfAnyFormAreShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ event, message, want string }{
		{"NOPE", "undeclared event type", "NOPE, 2h00m ago: undeclared event type\n"},
		{"", "not an event: expected a JSON object", "2h00m ago: not an event: expected a JSON object\n"},
		{"N\x1b[2JO\rPE", "one\ntwo\x9b", "N\\x1b[2JO\\rPE, 2h00m ago: one\n            two\\x9b\n"},
		{strings.Repeat("N", 1007), "long", strings.Repeat("N", 1000) + "... and 7 more bytes, 2h00m ago: long\n"},
	} {
		parked := record()
		parked.Error.Event, parked.Error.Message = c.event, c.message
		v, err := Of(pipelines(t), parked)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := v.WriteText(&out, console.Style{}, noon); err != nil {
			t.Fatal(err)
		}
		if want := "  parked    " + c.want; !strings.Contains(out.String(), want) {
			t.Errorf("expected %q in:\n%s", want, out.String())
		}
	}
}

func TestAReplayShowsPartialRunsOnlyIfThereAreSome(t *testing.T) {
	t.Parallel()
	for partial, want := range map[int]string{
		0: "MACHINE  VERSION  SAME  DIFFER\norder    1        3     0\n",
		2: "MACHINE  VERSION  SAME  DIFFER  PARTIAL\norder    1        3     0       2\n",
	} {
		var b strings.Builder
		if err := WriteReplay(&b, console.Style{}, []recording.Count{{Machine: "order", Version: 1, Same: 3, Partial: partial}}, nil); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("expected\n%s\ngot\n%s", want, b.String())
		}
	}
}
