package sqs

import (
	"testing"
	"time"
)

func TestWindow_forgets_five_minutes_after_the_last_put(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var w window[string, int]
	w.put(start, "once", 1)
	w.put(start, "twice", 1)
	w.put(start.Add(time.Minute), "twice", 2)
	for _, test := range []struct {
		key   string
		after time.Duration
		want  int
	}{
		{"once", 5*time.Minute - 1, 1},
		{"once", 5 * time.Minute, 0},
		{"twice", 5 * time.Minute, 2},
		{"twice", 6*time.Minute - 1, 2},
		{"twice", 6 * time.Minute, 0},
	} {
		if got, ok := w.get(start.Add(test.after), test.key); got != test.want || ok != (test.want != 0) {
			t.Errorf("%s after %v: got %d, %v, want %d", test.key, test.after, got, ok, test.want)
		}
	}
	if len(w.order)+len(w.entries) != 0 {
		t.Errorf("got %d entries, want none", len(w.order)+len(w.entries))
	}
}

func TestWindow_drops_an_expired_burst_gradually(t *testing.T) {
	t.Parallel()
	const burst = 1000
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dropped := 0
	var w window[int, int]
	for i := range burst {
		w.put(start, i, i)
	}
	w.changed = func(int) { dropped++ }
	for i := range burst / dropsMax {
		if got, ok := w.get(start.Add(deduplicationInterval), burst-1); ok {
			t.Fatalf("call %d: got the expired entry %d", i, got)
		}
		if want := (i + 1) * dropsMax; dropped != want {
			t.Fatalf("call %d: got %d dropped entries so far, want %d", i, dropped, want)
		}
	}
	if len(w.order)+len(w.entries) != 0 {
		t.Errorf("got %d entries, want none", len(w.order)+len(w.entries))
	}
}
