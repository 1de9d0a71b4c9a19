package simulate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// postAndWait sends an event to the gateway, and returns the state of the instance in the response.
func (w *world) postAndWait(path, event string, want int) (state string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.gateway.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path, strings.NewReader(event)))
	var shown struct {
		State []string `json:"state"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &shown); err != nil || answer.Code != want {
		w.t.Errorf("POST %s: want %d, got %d: %s, %v", path, want, answer.Code, answer.Body, err)
	}
	return strings.Join(shown.State, " ")
}

// TestTheGatewayWaitsForTheStateAfterAnEvent sends events by name and by alias, with the gateway's role.
func TestTheGatewayWaitsForTheStateAfterAnEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		const byName, byAlias = "/instances/enrich/demo-7/events", "/aliases/enricher/job-7/events"
		if state := w.postAndWait(byName+"?wait=settled&timeout=20s", `{"type": "ENRICH", "subject": "`+company+`"}`, http.StatusOK); state != "waiting" {
			t.Errorf("want waiting after ENRICH, got %q", state)
		}
		begun := time.Now()
		if state := w.postAndWait(byAlias+"?wait=settled", `{"type": "FAILED", "error": "lost"}`, http.StatusOK); state != "failed" || time.Since(begun) > 5*time.Second {
			t.Errorf("want failed after FAILED, within 5 seconds, got %q after %v", state, time.Since(begun))
		}
		// If the first event of an instance does not start the instance, the loop parks the event and writes nothing to
		// the table.
		if state := w.postAndWait("/instances/enrich/demo-8/events?wait=settled&timeout=1s", `{"type": "FAILED", "error": "lost"}`, http.StatusAccepted); state != "" {
			t.Errorf("want no state, got %q", state)
		}
	})
}
