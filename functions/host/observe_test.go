package host

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/functions/internal/shipped"
	"github.com/settle-run/settle/runtime/durable"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestOneTraceLeadsFromTheGatewayToATimer sends an event by HTTP, within a trace of the client's, and follows it: through the queue,
// the consumer, its service and its effects, to the timer that fires a second later.
func TestOneTraceLeadsFromTheGatewayToATimer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{shipped.JobPickUpTimeout: "1s", shipped.JobLaunchesMax: "2"})
	status, answer := w.request(http.MethodPost, "/instances/job/7/events", map[string]string{
		"content-type": "application/json", "traceparent": "00-" + traceID + "-00f067aa0ba902b7-01", "x-amzn-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793",
	}, `{"type":"queued","run_id":1,"job_id":7}`)
	if status != http.StatusAccepted {
		t.Fatalf("got %d %s", status, answer)
	}
	stop := w.poll()
	w.until("job/7", func(r durable.Record) bool {
		return slices.ContainsFunc(r.History, func(h durable.Transition) bool { return strings.HasPrefix(h.Event, "after") }) && len(r.Outbox) == 0
	})
	stop()

	named := map[string]span{}
	byID := map[string]span{}
	for _, s := range w.collected() {
		byID[s.SpanID] = s
		if s.TraceID != traceID {
			t.Errorf("%s is of the trace %s, want that of the client", s.Name, s.TraceID)
		}
		if s.Start == "" || s.Start > s.End {
			t.Errorf("%s goes from %q to %q", s.Name, s.Start, s.End)
		}
		if _, later := named[s.Name]; !later {
			named[s.Name] = s // the first: the timer leads to a second launch
		}
	}
	path := func(name string) (path string) {
		for s, ok := named[name]; ok; s, ok = byID[s.ParentSpanID] {
			path = s.Name + " > " + path
		}
		return strings.TrimSuffix(path, " > ")
	}
	const sent = "POST > turn > event queued"
	for name, want := range map[string]string{
		"event queued": sent, "service launchRunner": sent + " > service launchRunner", "effect schedule": sent + " > effect schedule",
		"event after pick_up": sent + " > effect schedule > turn > event after pick_up",
		"DynamoDB.GetItem":    "POST > turn > DynamoDB.GetItem",
	} {
		if path(name) != want {
			t.Errorf("got the path %q, want %q", path(name), want)
		}
	}
	if first := named["POST"]; first.ParentSpanID != "00f067aa0ba902b7" || first.Kind != 2 {
		t.Errorf("got the span %+v, want one of a server within the client's", first)
	}
	if line := w.logged("event applied"); len(line) == 0 || line[0]["trace_id"] != traceID {
		t.Errorf("got %v, want lines with the trace", line)
	}
}

// TestEachEventIsALineAndEachInvocationHasItsMetrics applies, skips and parks events, and looks at what is told of them.
func TestEachEventIsALineAndEachInvocationHasItsMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{boot.TracesEndpoint: "", boot.TracesHeaders: "", boot.Service: "orders"})
	for _, body := range []string{`{"type":"queued","$id":"once","run_id":1,"job_id":7}`, `{"type":"queued","$id":"twice","run_id":1,"job_id":7}`, `{"type":"unheard of"}`} {
		w.send("job/7", body)
	}
	w.send("job/7", `{"type":"queued","$id":"once","run_id":1,"job_id":7 }`)
	w.send("job/7", `{"type":"settle.wait","$task":{"token":"canary-token","name":"wait","timeoutSeconds":3600}}`)
	stop := w.poll()
	w.until("job/7", func(r durable.Record) bool { return len(r.Tokens) == 1 })
	w.send("job/7", `{"type":"completed","run_id":1,"job_id":7,"conclusion":"success"}`)
	w.until("job/7", func(r durable.Record) bool { return len(r.State) == 1 && r.State[0] == "success" })
	stop()

	applied := w.logged("event applied")
	if len(applied) < 4 { // A fifth tells that nobody knows the task.
		t.Fatalf("got %d lines of events, want 4 and more: %v", len(applied), applied)
	}
	for i, want := range []string{
		"queued [] [queued] 1 true", "queued [queued] [queued] 1 true", "settle.wait [queued] [queued] 1 true", "completed [queued] [success] 1 true",
	} {
		line := applied[i]
		from := line["from"]
		if from == nil {
			from = []string{}
		}
		if got := fmt.Sprint(line["event"], from, line["to"], line["attempts"], line["settled"]); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got the line %q, want %q", got, want)
		}
		if line["instance"] != "job/7" || line["level"] != "INFO" || line["revision"].(float64) < 1 || line["duration_ms"].(float64) < 0 || line["payload"] != nil {
			t.Errorf("got the line %v", line)
		}
	}
	got, invocations := w.measured()
	if got["Events"] != float64(len(applied)) || got["Parked"] != 1 || got["Skipped"] != 1 || got["Commits"] < 1 || got["AWSCalls"] < 5 || got["TokenDeadline"] < 3500 || invocations == 0 {
		t.Errorf("got %v in %d invocations", got, invocations)
	}
	if !strings.Contains(w.metrics.String(), `"Service":"orders"`) || !strings.Contains(w.metrics.String(), `"Namespace":"Settle"`) {
		t.Errorf("got %s", w.metrics.String())
	}
	if w.spans.String() != "" {
		t.Errorf("got spans, although nothing takes them: %s", w.spans.String())
	}
}
