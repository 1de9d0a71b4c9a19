package gateway_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
)

// stored returns the record of signup/42 with the test's change.
func stored(t *testing.T, change func(*instances.Record)) instances.Record {
	t.Helper()
	var s table
	s.put(t, "42", 7)
	record := s.records[instances.ID{Machine: "signup", ID: "42"}]
	change(&record)
	return record
}

func view(t *testing.T, record instances.Record) instanceview.Instance {
	t.Helper()
	v, err := instanceview.Of(machines(t), record)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// New keys of a record or its snapshot stay hidden until instanceview.Instance has a field for them.
func TestOnlyListedKeysAreShown(t *testing.T) {
	t.Parallel()
	record := stored(t, func(r *instances.Record) {
		var snapshot map[string]any
		if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
			t.Fatal(err)
		}
		token := map[string]any{"state": "verifying", "after": "1h0m0s", "at": epoch, "service": "s", "id": "i", "attempt": 1, "token": taskToken}
		snapshot["tokens"], snapshot["parked"], snapshot["since"] = token, token, epoch
		snapshot["timers"], snapshot["services"] = map[string]any{"1.0": token}, map[string]any{"1.1": token}
		snapshot["revision"], snapshot["next_events"], snapshot["history"] = 99, []string{taskToken}, []any{map[string]any{"event": taskToken}}
		var err error
		if r.Snapshot, err = json.Marshal(snapshot); err != nil {
			t.Fatal(err)
		}
		r.Watermark, r.RecentEvents, r.Error, r.History = map[string]string{"arn": taskToken}, []string{taskToken}, nil, nil
	})
	shown, err := json.Marshal(view(t, record))
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(shown, &keys); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), taskToken) || keys["parked"] != nil || keys["revision"] != 7.0 {
		t.Errorf("expected the keys of the record, and no token, got %s", shown)
	}
}

func TestNextEventsComeFromTheHostedChart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*instances.Record)
		want   []string
	}{
		"active":                        {func(*instances.Record) {}, []string{"RESEND", "VERIFY"}},
		"no machine of this build":      {func(r *instances.Record) { r.Instance.Machine = "elsewhere" }, []string{}},
		"another version's":             {replaced(`"version":3`, `"version":2`), []string{}},
		"a timer that no longer exists": {replaced(`"after":"1h0m0s"`, `"after":"2h0m0s"`), []string{}},
	} {
		v := view(t, stored(t, test.change))
		if !reflect.DeepEqual(v.NextEvents, test.want) {
			t.Errorf("%s: expected %#v, got %#v", name, test.want, v.NextEvents)
		}
		if v.Revision != 7 || len(v.Timers) != 1 || string(v.Value) != `"verifying"` {
			t.Errorf("%s: expected the rest of the view, got %+v", name, v)
		}
	}
}

// replaced replaces text in a record's snapshot.
func replaced(from, to string) func(*instances.Record) {
	return func(r *instances.Record) {
		r.Snapshot = json.RawMessage(strings.Replace(string(r.Snapshot), from, to, 1))
	}
}

func TestSinceIsWhenTheStateWasEntered(t *testing.T) {
	t.Parallel()
	created, at := epoch.Add(-time.Hour), epoch.Add(-time.Minute)
	a, b := []string{"a"}, []string{"b"}
	for _, c := range []struct {
		name    string
		history []instances.Transition
		// steps counts the start and each event that was not ignored.
		steps int
		want  time.Time
	}{
		{"no history", nil, 1, created},
		{"a history that was dropped", nil, 2, time.Time{}},
		{"entered, then noise", []instances.Transition{{At: at, From: b, To: a}, {At: epoch, From: a, To: a, Ignored: true}}, 2, at},
		{"longer ago than the history", []instances.Transition{{At: at, From: a, To: a, Ignored: true}}, 2, time.Time{}},
		{"only an ignored event", []instances.Transition{{At: at, From: a, To: a, Ignored: true}}, 1, created},
		{"a first event that changes no state", []instances.Transition{{At: at, From: a, To: a}, {At: epoch, From: a, To: a, Ignored: true}}, 2, created},
		{"rearmed", []instances.Transition{{At: at, From: a, To: a}}, 1_700_000_000_000_000, time.Time{}},
	} {
		v := view(t, stored(t, func(r *instances.Record) {
			r.State, r.CreatedAt, r.History = a, created, c.history
			r.Snapshot = regexp.MustCompile(`"steps":\d+`).ReplaceAll(r.Snapshot, fmt.Appendf(nil, `"steps":%d`, c.steps))
		}))
		if !v.Since.Equal(c.want) {
			t.Errorf("%s: expected %v, got %v", c.name, c.want, v.Since)
		}
	}
}

func TestWaitsAreShownWithoutTheirTokens(t *testing.T) {
	t.Parallel()
	v := view(t, stored(t, func(r *instances.Record) {
		r.Tokens = []instances.Token{
			{Key: "key-1", Value: taskToken, Name: "Queued", Execution: "arn-1", EnteredAt: epoch, TimeoutSeconds: 300, HeartbeatSeconds: 30},
			{Key: "key-2", Value: taskToken, Name: "InProgress", EnteredAt: epoch.Add(time.Minute), Answer: &instances.Answer{Output: json.RawMessage(`{}`)}},
			{Key: "key-3", Value: taskToken, Name: "Over", EnteredAt: epoch, Expired: true},
		}
		// A key "waits" in the snapshot must be ignored.
		r.Snapshot = json.RawMessage(strings.Replace(string(r.Snapshot), "{", `{"waits":[{"name":"`+taskToken+`"}],`, 1))
	}))
	want := []instanceview.Wait{{Name: "Queued", Since: epoch, Deadline: epoch.Add(5 * time.Minute)}, {Name: "InProgress", Since: epoch.Add(time.Minute)}}
	if !reflect.DeepEqual(v.Waits, want) {
		t.Errorf("expected %+v, got %+v", want, v.Waits)
	}
	shown, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{taskToken, "key-1", "key-2", "key-3", "arn-1"} {
		if strings.Contains(string(shown), secret) {
			t.Errorf("expected no trace of %s, got %s", secret, shown)
		}
	}
	if none, err := json.Marshal(view(t, stored(t, func(*instances.Record) {}))); err != nil || strings.Contains(string(none), "waits") {
		t.Errorf("expected no key waits without waiting tasks, got %s, %v", none, err)
	}
}

func TestUnreadableSnapshotErrorNamesTheInstance(t *testing.T) {
	t.Parallel()
	record := stored(t, func(r *instances.Record) { r.Snapshot = json.RawMessage(`{"timers": 1}`) })
	_, err := instanceview.Of(machines(t), record)
	if want := "reading the snapshot of signup/42 at revision 7: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("expected an error starting with %q, got %v", want, err)
	}
}
