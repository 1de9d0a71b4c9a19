package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/emf/emftest"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/tracing"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// quiet returns a Config with a fixed clock and the given outputs.
func quiet(metrics, log io.Writer) Config {
	return Config{Service: "settle", Logger: slog.New(slog.NewJSONHandler(log, nil)), Metrics: metrics, Now: func() time.Time { return epoch }}
}

func TestInvocationReportsTheOldestAgesAndTheNearestDeadline(t *testing.T) {
	t.Parallel()
	var metrics strings.Builder
	tele := New(quiet(&metrics, io.Discard))
	observer := tele.Observer()
	handler := tele.Handler(lambda.NewHandler(func(ctx context.Context) error {
		observer.Loaded(ctx, durable.Loaded{Unsettled: 3 * time.Second, Outbox: time.Second})
		observer.Loaded(ctx, durable.Loaded{Unsettled: 2 * time.Second, Outbox: 4 * time.Second})
		observer.Loaded(ctx, durable.Loaded{Backlog: 5 * time.Second})
		observer.Held(ctx, durable.Held{Left: 2 * time.Minute, Timeout: time.Hour})
		observer.Held(ctx, durable.Held{Left: time.Minute, Timeout: time.Hour})
		observer.Held(ctx, durable.Held{Left: 3 * time.Minute, Timeout: time.Hour})
		observer.Committed(ctx, durable.Committed{})
		observer.Conflict(ctx, "order/1")
		observer.Retried(ctx, durable.Retried{})
		observer.Retried(ctx, durable.Retried{Unreadable: true, Behind: 2})
		return errors.New("failed")
	}))
	if _, err := handler.Invoke(t.Context(), []byte("{}")); err == nil {
		t.Error("want the error of the handler")
	}
	got, err := emftest.Check([]byte(metrics.String()))
	want := map[string]float64{"UnsettledAge": 3, "OutboxAge": 4, "BacklogAge": 5, "TokenDeadline": 60, "Commits": 1, "Conflicts": 1, "Retried": 4, "Unreadable": 3, "AWSCalls": 0}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("metrics (-want +got):\n%s%v", diff, err)
	}
	observer.Conflict(t.Context(), "order/1") // This context has no invocation, so nothing is counted.
	observer.Held(t.Context(), durable.Held{Left: time.Second, Timeout: time.Hour})
}

// TestDeadlineIsMeasuredInTheLastTenthOfATask checks tasks of different lengths.
func TestDeadlineIsMeasuredInTheLastTenthOfATask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left, timeout time.Duration
		reported      bool
	}{
		{5 * time.Minute, 5 * time.Minute, false}, {30 * time.Second, 5 * time.Minute, false}, {30*time.Second - 1, 5 * time.Minute, true},
		{5 * time.Minute, 7 * 24 * time.Hour, true}, {17 * time.Hour, 7 * 24 * time.Hour, false}, {16 * time.Hour, 7 * 24 * time.Hour, true},
		{1, time.Second, true}, {0, time.Hour, false}, {-time.Second, time.Hour, false},
	} {
		var metrics strings.Builder
		tele := New(quiet(&metrics, io.Discard))
		handler := tele.Handler(lambda.NewHandler(func(ctx context.Context) error {
			tele.Observer().Held(ctx, durable.Held{Left: c.left, Timeout: c.timeout})
			return nil
		}))
		if _, err := handler.Invoke(t.Context(), []byte("{}")); err != nil {
			t.Error(err)
		}
		got, err := emftest.Check([]byte(metrics.String()))
		if seconds, reported := got["TokenDeadline"]; reported != c.reported || reported && seconds != c.left.Seconds() || err != nil {
			t.Errorf("%v of %v left: got %v, %v, want reported %v", c.left, c.timeout, got, err, c.reported)
		}
	}
}

func TestPayloadIsLoggedWithoutItsToken(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"type":"VERIFY","code":"1"}`:                         `{"code":"1","type":"VERIFY"}`,
		`{"type":"settle.wait","$task":{"token":"hush"}}`:      `{"$task":"[secret]","type":"settle.wait"}`,
		`{"type":"settle.wait","$task":"hush","\u0024task":1}`: `{"$task":"[secret]","type":"settle.wait"}`,
		`{"type":"settle.wait","$task":{"token":"hush"}`:       `"[not a JSON object]"`,
		`["hush"]`: `"[not a JSON object]"`,
	} {
		if got := string(payloadOf(body)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s is logged as %s, want %s", body, got, want)
		}
	}
}

// TestTracingCostsNothingWhenOff checks each place where a trace would start. Without a collector, the wrapped value is
// returned unchanged.
//
//nolint:paralleltest // It counts allocations.
func TestTracingCostsNothingWhenOff(t *testing.T) {
	off := New(quiet(io.Discard, io.Discard))
	if off.Observer().Begin != nil {
		t.Error("want no Begin hook for the loop")
	}
	without := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	count := func(handler http.Handler) float64 {
		return testing.AllocsPerRun(100, func() { handler.ServeHTTP(nil, request) })
	}
	if a, b := count(off.HTTP(without)), count(without); a != b {
		t.Errorf("a request allocates %v times with tracing off, want %v as without telemetry", a, b)
	}
	config := quiet(io.Discard, io.Discard)
	config.Logger = slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	message := durable.Message{To: instances.ID{Machine: "order", ID: "1"}, Body: []byte(`{"type":"PAY"}`)}
	sends := func(queue durable.Sender) float64 {
		return testing.AllocsPerRun(100, func() { _, _ = queue.Send(t.Context(), message) })
	}
	if got := sends(New(config).Sender(&queue{})); got != 0 {
		t.Errorf("sending an event allocates %v times with tracing and logging off, want 0", got)
	}
	batch := lambdaevents.SQSEvent{Records: make([]lambdaevents.SQSMessage, 10)}
	calls := 0
	each := New(config).Each(func(context.Context, lambdaevents.SQSEvent) (answer lambdaevents.SQSEventResponse, err error) {
		calls++
		return
	})
	if got := testing.AllocsPerRun(100, func() { _, _ = each(t.Context(), batch) }); got != 0 || calls != 101 {
		t.Errorf("a batch allocates %v times and is handled %d times, want 0 and 101: one call for the whole batch", got, calls)
	}
}

func BenchmarkRequest(b *testing.B) {
	endpoint, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		b.Fatal(err)
	}
	on := quiet(io.Discard, io.Discard)
	on.TracesEndpoint, on.TracesClient = endpoint, http.DefaultClient
	without := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"without", without}, {"off", New(quiet(io.Discard, io.Discard)).HTTP(without)}, {"on", New(on).HTTP(without)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.handler.ServeHTTP(nil, request)
			}
		})
	}
}

// TestFailedExportFailsNoInvocation invokes a function with too many spans while the collector answers 503. The
// invocation must succeed, and both losses must be logged.
func TestFailedExportFailsNoInvocation(t *testing.T) {
	t.Parallel()
	var got int
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got += strings.Count(string(body), `"spanId"`)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer collector.Close()
	var log strings.Builder
	config := quiet(io.Discard, &log)
	config.TracesClient = collector.Client()
	var err error
	if config.TracesEndpoint, err = url.Parse(collector.URL); err != nil {
		t.Fatal(err)
	}
	tele := New(config)
	var after func()
	handler := tele.Handler(lambda.NewHandler(func(ctx context.Context) error {
		for range spansMax + 1 {
			_, end := tele.start(ctx, "work", otlp.Internal)
			end(nil)
		}
		after = func() { _, end := tele.start(ctx, "late", otlp.Internal); end(nil) }
		return nil
	}))
	if _, err := handler.Invoke(t.Context(), []byte("{}")); err != nil {
		t.Error(err)
	}
	after()
	if got != spansMax || !strings.Contains(log.String(), "got 503") || !strings.Contains(log.String(), `"lost":1,`) {
		t.Errorf("got %d spans, want %d, and the log\n%s", got, spansMax, log.String())
	}
}

func TestSpanThatEndsAfterItsInvocationIsDropped(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		current := &invocation{over: over}
		current.keep(otlp.Span{})
		if kept := len(current.spans) == 1; kept == over || current.lost != 0 {
			t.Errorf("over %v: kept %v, lost %d", over, kept, current.lost)
		}
	}
}

func TestUnsampledSpanIsPropagatedButNotExported(t *testing.T) {
	t.Parallel()
	config := quiet(io.Discard, io.Discard)
	config.TracesEndpoint, config.TracesClient = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, http.DefaultClient
	tele := New(config)
	current := &invocation{}
	ctx := context.WithValue(t.Context(), invocationKey{}, current)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
	for sampled, want := range []int{0, 1} {
		within, end := tele.start(tracing.With(ctx, tracing.Trace{Parent: fmt.Sprint(parent, sampled)}), "work", otlp.Internal)
		end(errors.New("canary"))
		if got := tracing.Of(within).Parent; !strings.HasPrefix(got, parent[:36]) || !strings.HasSuffix(got, fmt.Sprint("-0", sampled)) || len(current.spans) != want {
			t.Errorf("sampled %d: got %s and %d spans, want %d", sampled, got, len(current.spans), want)
		}
	}
	if text := fmt.Sprint(current.spans[0].Attributes); strings.Contains(text, "canary") || !strings.Contains(text, "_OTHER") {
		t.Errorf("got %s, want the type of the error, not its text", text)
	}
}
