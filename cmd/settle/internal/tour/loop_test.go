package tour

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
)

// lockedBuffer is a bytes.Buffer that the test reads while the tour writes.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// TestLoopPlaysAgainWithNewInstances plays two rounds on one stack. In the first round, the test cancels the sign-up,
// as a user of the console can.
func TestLoopPlaysAgainWithNewInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		config := Config{Pause: 2 * time.Second, PickUpTimeout: 4 * time.Second, UploadWindow: 20 * time.Second, TimeLimit: time.Minute, Secret: "secret"}
		played := New(&out, config)
		callbacks := enrich.Callbacks{Key: []byte("a key of sixteen bytes")}
		running, err := stack.Start(t.Context(), func(gatewayURL string) []durable.Machine {
			callbacks.Base = gatewayURL
			return host(nil, nil)(slog.New(played.Log()), machines.Settings{
				EnrichCallbacks: callbacks, Job: job.Config{PickUpTimeout: config.PickUpTimeout}, Upload: upload.Config{Window: config.UploadWindow},
			})
		}, stack.Config{
			Logger: slog.New(played.Log()), Committed: played.Committed,
			Webhooks:  map[string]gateway.Webhook{webhook.Name: webhook.GitHub(gateway.Secrets{Current: []byte(config.Secret)})},
			Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback}},
		})
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
					t.Fatalf("expected two rounds within ten minutes, got:\n%s", out.String())
				}
			}
		}
		until(func() bool {
			return strings.Contains(out.String(), "watch "+running.ConsoleURL()+"instances/signup/ada\n")
		})
		cancelled, err := running.HTTPClient().Post(running.HTTPURL()+"/instances/signup/ada/events", "application/json", strings.NewReader(`{"type": "CANCEL"}`))
		if err != nil || cancelled.StatusCode != http.StatusAccepted {
			t.Fatalf("cancelling the sign-up: %v %v", cancelled, err)
		}
		_ = cancelled.Body.Close() // The status is enough.
		until(func() bool { return strings.Count(out.String(), "They begin again") == 2 })
		stop()
		<-ended
		if err := running.Close(); err != nil {
			t.Error(err)
		}
		first, second, _ := strings.Cut(out.String(), "They begin again")
		if got := strings.Count(out.String(), "ended early"); got != 1 || !strings.Contains(first, "The scene has ended early: waited for signup/ada to reach") {
			t.Errorf("expected only the scene of signup/ada to fail, got %d failures:\n%s", got, out.String())
		}
		for _, name := range []string{"job/run-2001-job-1", "job/run-2002-job-2", "signup/ada-2", "enrich/demo-7-2", "enrich/demo-8-2", "pipeline/sales-2-01", "pipeline/stock-2-01", "pipeline/costs-2-01", "pipeline/leads-2-01", "pipeline/plans-2-01", "upload/1999_12"} {
			if want := "watch " + running.ConsoleURL() + "instances/" + name + "\n"; strings.Count(second, want) != 1 || !strings.Contains(second, "history of "+name+"\n") || strings.Contains(first, name+"\n") {
				t.Errorf("expected %s to be played in the second round, and %q once, got:\n%s", name, want, out.String())
			}
		}
		if !strings.Contains(strings.Join(strings.Fields(second), " "), "after warning sla.watching.on_time → warning") {
			t.Errorf("expected a warning before the breach in spite of the pauses, got:\n%s", second)
		}
	})
}
