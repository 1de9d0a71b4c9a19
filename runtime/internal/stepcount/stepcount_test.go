package stepcount_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/stepcount"
	"github.com/settle-run/settle/runtime/statechart"
)

// Skipped steps change the IDs that later steps derive, but no existing ID.
func TestSkippedStepsGiveNewIDsAndKeepExistingOnes(t *testing.T) {
	t.Parallel()
	type none struct{}
	again := statechart.Transition[none]{Event: "AGAIN", Target: "waiting", Reenter: true}
	chart := statechart.Must(statechart.Definition[none]{
		ID: "skipped", Version: 1, Initial: "waiting", Payloads: statechart.Payloads{"AGAIN": statechart.NoPayload()},
		States: []statechart.State[none]{
			{ID: "waiting", Tags: []string{statechart.Settled}, On: []statechart.Transition[none]{again},
				After: []statechart.After[none]{{Delay: time.Hour, Target: "over"}}},
			{ID: "over", Type: statechart.Final},
		},
	})
	start, err := chart.Start(statechart.Start{Instance: "skipped/1", At: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(start.Next)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, want int64 }{{1_795_165_200_123_456, 1_795_165_200_123_456}, {0, 2}, {1, 2}} {
		raised, steps, err := stepcount.Raise(stored, c.to)
		if err != nil || steps != c.want {
			t.Fatalf("skipping to %d: got %d and %v, want %d", c.to, steps, err, c.want)
		}
		snapshot, err := chart.Restore(raised)
		if err != nil {
			t.Fatal(err)
		}
		if id := snapshot.Timers[0].ID; id != start.Next.Timers[0].ID || snapshot.Steps != c.want {
			t.Errorf("the timer is %s after %d steps, want %s after %d", id, snapshot.Steps, start.Next.Timers[0].ID, c.want)
		}
		next, err := chart.Step(snapshot, statechart.Event{Type: "AGAIN", At: time.Unix(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := next.Effects[0].ID, fmt.Sprint(c.want+1, ".0"); got != want {
			t.Errorf("the next effect is %s, want %s", got, want)
		}
	}
}

// Skipping changes no other value, not even the notation of a number.
func TestSkippedStepsChangeNothingElse(t *testing.T) {
	t.Parallel()
	const before = `{"machine":"m","version":7,"context":{"text":"a<b","number":1.50,"big":12345678901234567890},"steps":3}`
	got, _, err := stepcount.Raise(json.RawMessage(before), 9)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"context":{"text":"a<b","number":1.50,"big":12345678901234567890},"machine":"m","steps":9,"version":7}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A second turn starts from the raised count, so a second skip leaves room for its steps too.
func TestSkipTurnLeavesRoomForTheStepsOfATurn(t *testing.T) {
	t.Parallel()
	snapshot, before := json.RawMessage(`{"machine":"m","steps":3}`), int64(3)
	for range 2 {
		raised, err := stepcount.SkipTurn(snapshot)
		var stored struct{ Steps int64 }
		if err == nil {
			err = json.Unmarshal(raised, &stored)
		}
		if err != nil || stored.Steps < before+10*statechart.MicrostepsMax {
			t.Fatalf("got %s and %v, want room for 10 times %d steps after %d", raised, err, statechart.MicrostepsMax, before)
		}
		snapshot, before = raised, stored.Steps
	}
}

func TestRaiseRejectsInvalidSnapshots(t *testing.T) {
	t.Parallel()
	for snapshot, reason := range map[string]string{
		``: "", `[]`: "expected an object", `{}`: "got 0", `{"steps": 0}`: "got 0", `{"steps": "3"}`: "steps",
		`{"steps": 9007199254740991}`: "got 9007199254740991", fmt.Sprintf(`{"steps": %d}`, math.MaxInt64): "raising the count",
	} {
		if _, _, err := stepcount.Raise(json.RawMessage(snapshot), 5); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want an error: %s", snapshot, err, reason)
		}
		if _, err := stepcount.SkipTurn(json.RawMessage(snapshot)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want an error: %s", snapshot, err, reason)
		}
	}
}
