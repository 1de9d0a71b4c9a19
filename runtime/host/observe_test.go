package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// xray is the X-Ray header of a span in the client's trace.
const xray = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"

// TestOneTraceSpansAllFunctions sends an event by HTTP within the client's trace. It follows the trace through the
// queue, the consumer, its service and its effects. Two more events join the trace by X-Ray's header: a task's wait
// through tokentask, and the end of an execution. A second consumer then launches the job again, and the timer of this
// launch joins the trace too. The second consumer has a pick-up timeout of one second. The first one has a long
// timeout, so that the timer of the first launch does not fire before the second launch.
func TestOneTraceSpansAllFunctions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{samples.JobPickUpTimeout: "14m", samples.JobLaunchesMax: "2"})
	post := func(body string) {
		t.Helper()
		status, answer := w.request(http.MethodPost, "/instances/job/7/events", map[string]string{
			"content-type": "application/json", "traceparent": "00-" + traceID + "-00f067aa0ba902b7-01", "x-amzn-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793",
		}, body)
		if status != http.StatusAccepted {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	post(`{"type":"queued","run_id":1,"job_id":7,"labels":["self-hosted"]}`)
	stop := w.poll()
	queued := w.until("job/7", func(r instances.Record) bool {
		return len(r.State) == 1 && r.State[0] == "queued" && !r.Owes()
	})
	w.waitInTrace(queued)
	stop()
	w.variables[samples.JobPickUpTimeout] = "1s"
	stop = w.poll()
	post(`{"type":"RELAUNCH","launch":1}`)
	w.until("job/7", func(r instances.Record) bool {
		return len(r.State) == 1 && r.State[0] == "not_picked_up" && !r.Owes() && len(r.Tokens) == 0
	})
	stop()

	paths := w.paths()
	const sent, waiting = "POST > turn > event queued", "send settle.wait > turn > event settle.wait"
	const fired = "POST > turn > event RELAUNCH > effect schedule > send settle.timer > turn > event after pick_up"
	for name, want := range map[string]string{
		"event queued": sent, "service launchRunner": sent + " > service launchRunner", "effect schedule": sent + " > effect schedule",
		"DynamoDB.GetItem": "POST > turn > DynamoDB.GetItem", "event settle.wait": waiting, "send settle.execution.ended": "send settle.execution.ended",
		"event after pick_up": fired, "SFN.SendTaskSuccess": strings.Replace(fired, "event after pick_up", "SFN.SendTaskSuccess", 1),
	} {
		if !slices.Contains(paths[name], want) {
			t.Errorf("got paths %q to %q, want %q among them", paths[name], name, want)
		}
	}
	for _, line := range w.logged("event queued") {
		if line["trace_id"] != traceID || line["instance"] != "job/7" || line["message_id"] == "" {
			t.Errorf("got the log line %v, want it to have the trace", line)
		}
	}
	types := map[any]int{}
	for _, line := range w.logged("event queued") {
		types[line["type"]]++
	}
	if want := map[any]int{"queued": 1, "RELAUNCH": 1, "settle.wait": 1, "settle.timer": 1, "settle.execution.ended": 1}; !maps.Equal(types, want) {
		t.Errorf("got %v events queued, want %v", types, want)
	}
	if lines := w.logged("event applied"); len(lines) < 3 || lines[0]["trace_id"] != traceID {
		t.Errorf("got %v, want log lines with the trace", lines)
	}
}

// waitInTrace makes a task wait for the instance through tokentask, and sends the end of an execution through the
// executions function.
func (w *world) waitInTrace(job instances.Record) {
	w.t.Helper()
	traced := context.WithValue(w.t.Context(), "x-amzn-trace-id", xray) //nolint:revive,staticcheck // This is the key of aws-lambda-go.
	const task = `{"instance":"job/7","event":{"type":"settle.wait","$task":{"token":"canary-token","name":"Queued","timeoutSeconds":600}}}`
	if _, err := w.start("tokentask", host.TokenTask(samples.Machines)).Invoke(traced, []byte(task)); err != nil {
		w.t.Error(err)
	}
	w.until("job/7", func(r instances.Record) bool { return len(r.Tokens) == 1 })
	body := fmt.Sprintf(`{"detail-type":"Step Functions Execution Status Change","detail":{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:settle-1",`+
		`"name":"settle-1","status":"SUCCEEDED","input":"{\"$settle\":{\"instance\":\"job/7\",\"execution\":\"settle-1\",\"incarnation\":%d}}","output":"{}"}}`, job.CreatedAt.UnixMilli())
	batch, err := json.Marshal(map[string]any{"Records": []any{map[string]any{"messageId": "1", "body": body, "attributes": map[string]string{"AWSTraceHeader": xray}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	if answer, err := w.start("executions", host.Executions()).Invoke(w.t.Context(), batch); err != nil || string(answer) != `{"batchItemFailures":[]}` {
		w.t.Errorf("got %s and %v", answer, err)
	}
}

// paths returns the paths to the spans, by span name. All spans must be in the client's trace. A span without a
// collected parent must be a child of the client's span.
func (w *world) paths() map[string][]string {
	w.t.Helper()
	byID, found := map[string]span{}, map[string][]string{}
	for _, s := range w.collected() {
		byID[s.SpanID] = s
	}
	for _, s := range byID {
		if s.TraceID != traceID || s.Start == "" || s.Start > s.End {
			w.t.Errorf("got the span %+v, want one in the client's trace that ends after it starts", s)
		}
		path := s.Name
		first := s
		for parent, ok := byID[s.ParentSpanID]; ok; parent, ok = byID[parent.ParentSpanID] {
			first, path = parent, parent.Name+" > "+path
		}
		if first.ParentSpanID != "00f067aa0ba902b7" {
			w.t.Errorf("%s: got the parent %s, want the client's span", path, first.ParentSpanID)
		}
		if kind := map[string]int{"POST": 2, "send settle.wait": 4}[s.Name]; kind != 0 && s.Kind != kind {
			w.t.Errorf("%s: got the kind %d, want %d", s.Name, s.Kind, kind)
		}
		found[s.Name] = append(found[s.Name], path)
	}
	return found
}

// TestEventsAreLoggedAndInvocationsMeasured applies, skips and parks events, and checks the log and the
// metrics.
func TestEventsAreLoggedAndInvocationsMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{host.TracesEndpoint: "", host.TracesHeaders: "", host.Service: "orders"})
	for _, body := range []string{`{"type":"queued","$id":"once","run_id":1,"job_id":7,"labels":["self-hosted"]}`, `{"type":"queued","$id":"twice","run_id":1,"job_id":7,"labels":["self-hosted"]}`, `{"type":"unheard of"}`} {
		w.send("job/7", body)
	}
	w.send("job/7", `{"type":"queued","$id":"once","run_id":1,"job_id":7,"labels":["self-hosted"] }`)
	w.send("job/7", `{"type":"settle.wait","$task":{"token":"canary-token","name":"InProgress","timeoutSeconds":360000}}`)
	stop := w.poll()
	w.until("job/7", func(r instances.Record) bool { return len(r.Tokens) == 1 })
	late := time.Now().Add(-99 * time.Hour).UTC().Format(time.RFC3339)
	w.send("job/7", `{"type":"settle.wait","$task":{"token":"canary-late","name":"InProgress","enteredAt":"`+late+`","timeoutSeconds":360000}}`)
	w.until("job/7", func(r instances.Record) bool { return len(r.Tokens) == 2 })
	w.send("job/7", `{"type":"completed","run_id":1,"job_id":7,"conclusion":"success"}`)
	w.until("job/7", func(r instances.Record) bool { return len(r.State) == 1 && r.State[0] == "success" })
	stop()

	applied := w.logged("event applied")
	if len(applied) < 5 { // Up to two more lines report that the tasks are unknown.
		t.Fatalf("got %d log lines of events, want at least 5: %v", len(applied), applied)
	}
	for i, want := range []string{
		"queued [] [queued] 1 true", "queued [queued] [queued] 1 true", "settle.wait [queued] [queued] 1 true",
		"settle.wait [queued] [queued] 1 true", "completed [queued] [success] 1 true",
	} {
		line := applied[i]
		from := line["from"]
		if from == nil {
			from = []string{}
		}
		if got := fmt.Sprint(line["event"], from, line["to"], line["attempts"], line["settled"]); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got the log line %q, want %q", got, want)
		}
		if line["instance"] != "job/7" || line["level"] != "INFO" || line["revision"].(float64) < 1 || line["duration_ms"].(float64) < 0 || line["payload"] != nil {
			t.Errorf("got the log line %v", line)
		}
	}
	got, invocations := w.measured()
	if got["Events"] != float64(len(applied)) || got["Parked"] != 1 || got["Skipped"] != 1 || got["Commits"] < 1 || got["AWSCalls"] < 5 || invocations == 0 {
		t.Errorf("got %v in %d invocations", got, invocations)
	}
	if faults := strings.Count(w.logs.String(), `"level":"ERROR"`); faults < 1 || got["Faults"] != float64(faults) {
		t.Errorf("got %v faults, want one for each of the %d lines of level ERROR", got["Faults"], faults)
	}
	if got["TokenDeadline"] < 1 || got["TokenDeadline"] > 3600 {
		t.Errorf("got a deadline in %v s, want only the late task's, in an hour", got["TokenDeadline"])
	}
	if !strings.Contains(w.metrics.String(), `"Service":"orders"`) || !strings.Contains(w.metrics.String(), `"Namespace":"Settle"`) {
		t.Errorf("got %s", w.metrics.String())
	}
	if w.spans.String() != "" {
		t.Errorf("got spans without a collector: %s", w.spans.String())
	}
}
