package tour

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoopPlaysAgainWithNewInstances plays two rounds on one stack. In the first round, the test cancels the sign-up,
// as a console user could.
func TestLoopPlaysAgainWithNewInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		config := Config{Pause: 2 * time.Second, PickUpTimeout: 4 * time.Second, UploadWindow: 20 * time.Second, TimeLimit: time.Minute, Secret: "secret"}
		played := New(&out, config)
		printed := func() string {
			played.out.mu.Lock()
			defer played.out.mu.Unlock()
			return out.String()
		}
		running, err := played.start(t.Context(), host(nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			played.Loop(ctx, running)
		}()
		until := func(done func() bool) {
			for synctest.Wait(); !done(); synctest.Wait() {
				if time.Sleep(time.Second); time.Since(began) > 10*time.Minute {
					t.Fatalf("expected two rounds within ten minutes, got:\n%s", printed())
				}
			}
		}
		until(func() bool {
			return strings.Contains(printed(), "watch "+running.ConsoleURL()+"instances/signup/ada\n")
		})
		cancelled, err := running.HTTPClient().Post(running.HTTPURL()+"/instances/signup/ada/events", "application/json", strings.NewReader(`{"type": "CANCEL"}`))
		if err != nil || cancelled.StatusCode != http.StatusAccepted {
			t.Fatalf("cancelling the sign-up: %v %v", cancelled, err)
		}
		_ = cancelled.Body.Close() // The status is enough.
		until(func() bool { return strings.Count(printed(), "They begin again") == 2 })
		stop()
		<-ended
		if err := running.Close(); err != nil {
			t.Error(err)
		}
		first, second, _ := strings.Cut(printed(), "They begin again")
		if got := strings.Count(printed(), "ended early"); got != 1 || !strings.Contains(first, "The scene has ended early: waited for signup/ada to reach") {
			t.Errorf("expected only the scene of signup/ada to fail, got %d failures:\n%s", got, printed())
		}
		for _, name := range []string{"job/run-2001-job-1", "job/run-2002-job-2", "signup/ada-2", "enrich/demo-7-2", "enrich/demo-8-2", "pipeline/sales-2-01", "pipeline/stock-2-01", "pipeline/costs-2-01", "pipeline/leads-2-01", "pipeline/plans-2-01", "upload/1999_12"} {
			if want := "watch " + running.ConsoleURL() + "instances/" + name + "\n"; strings.Count(second, want) != 1 || !strings.Contains(second, "history of "+name+"\n") || strings.Contains(first, name+"\n") {
				t.Errorf("expected %s to be played in the second round, and %q once, got:\n%s", name, want, printed())
			}
		}
		if !strings.Contains(strings.Join(strings.Fields(second), " "), "after warning sla.watching.on_time → warning") {
			t.Errorf("expected a warning before the breach in spite of the pauses, got:\n%s", second)
		}
	})
}
