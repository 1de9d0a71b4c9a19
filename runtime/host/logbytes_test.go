package host_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
)

// logRow matches the rows of docs/cost.md that state the size of a log line.
var logRow = regexp.MustCompile(`(?m)^\| of each (event|invocation), the line .* \| (\d+) \| measured \|$`)

// TestLogBytesMatchTheCostPage applies events one by one with the template's settings, and measures the consumer's
// log lines for events without services.
func TestLogBytesMatchTheCostPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]float64{}
	for _, row := range logRow.FindAllStringSubmatch(string(text), -1) {
		says[row[1]], _ = strconv.ParseFloat(row[2], 64)
	}
	if len(says) != 2 {
		t.Fatalf("expected docs/cost.md to have the bytes of each event and each invocation, got %v", says)
	}

	w := newWorld(t, map[string]string{host.TracesEndpoint: "", host.TracesHeaders: ""})
	stop := w.poll()
	const jobs = 10
	for i := range jobs {
		id := 1001 + i
		job := fmt.Sprintf("job/run-%d-job-%d", id, id)
		for _, event := range []struct{ body, state string }{
			{`{"type":"queued","run_id":%d,"job_id":%d,"labels":["self-hosted"]}`, "queued"},
			{`{"type":"in_progress","run_id":%d,"job_id":%d}`, "in_progress"},
			{`{"type":"completed","run_id":%d,"job_id":%d,"conclusion":"success"}`, "success"},
		} {
			w.send(job, fmt.Sprintf(event.body, id, id))
			w.until(job, func(r instances.Record) bool {
				return len(r.State) == 1 && r.State[0] == event.state && !r.Owes()
			})
		}
	}
	stop()

	events, bytes := 0, 0
	for line := range strings.Lines(w.logs.String()) {
		applied := strings.Contains(line, `"msg":"event applied"`)
		if !applied && !strings.Contains(line, "runner") {
			t.Errorf("expected only lines of applied events and launched runners, got %s", line)
		}
		if applied && !strings.Contains(line, `"event":"queued"`) {
			events, bytes = events+1, bytes+len(line)
		}
	}
	wantAbout(t, "the line of an event", says["event"], float64(bytes)/float64(events))
	invocations, bytes := 0, 0
	for line := range strings.Lines(w.metrics.String()) {
		if strings.Contains(line, `"Events":1,`) {
			invocations, bytes = invocations+1, bytes+len(line)
		}
	}
	wantAbout(t, "the metrics of an invocation", says["invocation"], float64(bytes)/float64(invocations))
	if events != 2*jobs || invocations != 3*jobs {
		t.Errorf("want %d log lines of events without services and %d invocations with one event, got %d and %d", 2*jobs, 3*jobs, events, invocations)
	}
}

// refusedRow matches the rows of docs/floods.md that state the size of a log line.
var refusedRow = regexp.MustCompile(`(?m)^\| the line (?:"request (refused)"|of its (metrics)).* \| (\d+) \| measured \|$`)

// TestLogBytesOfARefusedRequestMatchTheFloodPage sends a webhook without a signature to the gateway, with the template's
// settings, and measures its log lines.
func TestLogBytesOfARefusedRequestMatchTheFloodPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/floods.md")
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]float64{}
	for _, row := range refusedRow.FindAllStringSubmatch(string(text), -1) {
		says[row[1]+row[2]], _ = strconv.ParseFloat(row[3], 64)
	}
	w := newWorld(t, map[string]string{host.TracesEndpoint: "", host.TracesHeaders: "", samples.GitHubWebhookSecret: "0123456789abcdef"})
	if status, answer := w.request("POST", "/webhooks/github", map[string]string{"content-type": "application/json"}, "{}"); status != 401 {
		t.Fatalf("expected 401, got %d %s", status, answer)
	}
	log, metrics := w.logs.String(), w.metrics.String()
	if strings.Count(log, "\n") != 1 || strings.Count(metrics, "\n") != 1 {
		t.Errorf("expected one line of log and one of metrics, got %s and %s", log, metrics)
	}
	wantAbout(t, "the line of a refused request", says["refused"], float64(len(log)))
	wantAbout(t, "the metrics of a refused request", says["metrics"], float64(len(metrics)))
}

// wantAbout compares docs/cost.md or docs/floods.md with the measurement. The measurement may differ by a few bytes, because the number
// of digits in times and durations varies.
func wantAbout(t *testing.T, what string, says, measured float64) {
	t.Helper()
	t.Logf("%s: %.1f bytes", what, measured)
	if math.IsNaN(measured) || math.Abs(says-measured) > 10 {
		t.Errorf("%s: got %.1f bytes, but the page says %.0f: change it in runtime/simulate/costdeployed_test.go or costflood_test.go, and run make cost COST_FLAGS=-cost", what, measured, says)
	}
}

func TestHistoryMaxLimitsTheHistory(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"2": 2, "": 4} {
		w := newWorld(t, map[string]string{host.HistoryMax: value, samples.JobLaunchesMax: "1"})
		stop := w.poll()
		for _, typ := range []string{"queued", "in_progress", "completed"} {
			w.send("job/7", `{"type":"`+typ+`","run_id":1,"job_id":7,"conclusion":"success","labels":["self-hosted"]}`)
		}
		record := w.until("job/7", func(r instances.Record) bool { return r.Status == "done" && !r.Owes() })
		stop()
		if len(record.History) != want || record.History[len(record.History)-1].Event != "completed" {
			t.Errorf("%s=%s: want the last %d transitions, got %+v", host.HistoryMax, value, want, record.History)
		}
	}
}
