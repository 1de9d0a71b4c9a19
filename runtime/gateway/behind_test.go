package gateway_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
)

// limited is a machine with a limit on the age of a backlog.
type limited struct{ durable.Machine }

func (limited) BacklogAgeMax() time.Duration { return time.Minute }

// newBehindWorld returns a world in which signup/42 was written 20.5 seconds ago. At that time, its backlog was an hour
// old. The limit is a minute.
func newBehindWorld(t *testing.T) *world {
	t.Helper()
	w := newAcmeWorld(t)
	now := epoch.Add(time.Hour)
	set, err := durable.NewMachines(limited{signup()}, limited{durable.Host(job.New(nil, job.Config{}), durable.MachineConfig{})})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := gateway.New(set, &w.queue, &w.table, gateway.Config{
		Webhooks: github(webhookSecret), Callbacks: map[string]gateway.Callback{"acme": {Machine: "signup", Verify: verifyAcme, Read: readAcme}},
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = documented(t, handler)
	w.table.change("42", func(r *instances.Record) {
		r.UpdatedAt = now.Add(-20*time.Second - time.Second/2)
		r.BacklogSince = r.UpdatedAt.Add(-time.Hour)
	})
	return w
}

func TestEventsToAnInstanceThatIsBehindAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{eventsPath, eventsPath + "?wait=settled", "/aliases/acme/7/events"} {
		w := newBehindWorld(t)
		answer := post(w, path, `{"type":"RESEND"}`, http.Header{"Idempotency-Key": {"resend-1"}})
		wantAnswer(t, path, answer, http.StatusTooManyRequests,
			`"code":"behind","detail":"the instance is behind: the events of signup/42 wait for 1h0m0s, the limit is 1m0s (BacklogAgeMax): nothing was queued, retry after 39.5s"`)
		if got := answer.Header().Get("Retry-After"); got != "40" {
			t.Errorf("%s: want to retry after 40 seconds, got %q", path, got)
		}
		if len(w.queue.sent)+len(w.table.reserved) != 0 {
			t.Errorf("%s: want nothing queued or reserved, got %v and %v", path, w.queue.sent, w.table.reserved)
		}
	}
	w := newBehindWorld(t)
	wantAnswer(t, "another instance", post(w, "/instances/signup/43/events", `{"type":"RESEND"}`, nil), http.StatusAccepted, "message-1")
	w.table.fail(errors.New("throttled"))
	wantAnswer(t, "without the table", post(w, eventsPath, `{"type":"RESEND"}`, nil), http.StatusServiceUnavailable, `"code":"store"`)
}

// A third party may never send a refused request again.
func TestWebhooksAndCallbacksToAnInstanceThatIsBehindAreQueued(t *testing.T) {
	t.Parallel()
	w := newBehindWorld(t)
	wantAnswer(t, "a callback", post(w, "/webhooks/acme/42/3630/right", acmeBody, nil), http.StatusAccepted, "message-1")
	hook := []byte(`{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued"}}`)
	loads := w.table.loads
	wantAnswer(t, "a webhook", post(w, "/webhooks/github", string(hook), webhookHeader(hook)), http.StatusAccepted, "message-2")
	if w.table.loads != loads {
		t.Error("a webhook reads the table")
	}
}
