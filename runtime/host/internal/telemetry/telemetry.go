// Package telemetry writes logs, metrics and spans: a log line per event, a line of metrics per invocation, and spans
// if a collector is configured. It writes them before the invocation ends, because Lambda freezes the process
// afterwards.
//
// Of an event's content, the package writes only the type, unless payloads are logged. It never writes task tokens or
// keys.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/settle-run/settle/runtime/host/internal/emf"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
)

// Config configures a Telemetry.
type Config struct {
	// Service is the service name in metrics and spans.
	Service string
	// Logger writes the log. Required.
	Logger *slog.Logger
	// Payloads turns on logging of event payloads.
	Payloads bool
	// Metrics receives the lines of metrics. Required.
	Metrics io.Writer
	// Now is the clock. Required.
	Now func() time.Time
	// TracesEndpoint is the collector, nil if tracing is off. TracesHeaders are HTTP headers for it.
	TracesEndpoint *url.URL
	TracesHeaders  map[string]string
	// TracesClient sends the requests to the collector. Required if tracing is on.
	TracesClient *http.Client
	// Resource holds further resource attributes of the spans, besides service.name.
	Resource []otlp.Attribute
}

// Telemetry writes logs, metrics and spans of a function. A nil Telemetry writes nothing. It is safe for concurrent
// use.
type Telemetry struct {
	config   Config
	exporter *otlp.Exporter // nil if tracing is off
	writing  sync.Mutex
	collector
}

// New returns the telemetry of a function.
func New(config Config) *Telemetry {
	t := &Telemetry{config: config}
	if config.TracesEndpoint != nil {
		resource := append([]otlp.Attribute{{Key: "service.name", Value: config.Service}}, config.Resource...)
		t.exporter = otlp.NewExporter(config.TracesClient, config.TracesEndpoint, config.TracesHeaders, resource)
	}
	return t
}

// namespace and dimension apply to all metrics.
const (
	namespace = "Settle"
	dimension = "Service"
)

// Handler wraps the handler. Each invocation ends with its line of metrics and the export of its spans.
func (t *Telemetry) Handler(handler lambda.Handler) lambda.Handler {
	if t == nil {
		return handler
	}
	return invoker{t, handler}
}

type invoker struct {
	telemetry *Telemetry
	handler   lambda.Handler
}

// Invoke invokes the handler.
func (i invoker) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	invocation := &invocation{}
	defer i.telemetry.flush(ctx, invocation)
	return i.handler.Invoke(context.WithValue(ctx, invocationKey{}, invocation), payload)
}

// invocation collects the metrics and spans of one invocation.
type invocation struct {
	mu sync.Mutex
	// counts are indexed by the metrics below.
	counts [len(countNames)]int
	// extremes are the oldest ages and the nearest deadline. `has` reports which of them are set.
	extremes [len(extremeNames)]time.Duration
	has      [len(extremeNames)]bool
	spans    []otlp.Span
	lost     int // spans beyond spansMax
	over     bool
}

type invocationKey struct{}

// invocationOf returns the invocation of the context, or nil without one.
func invocationOf(ctx context.Context) *invocation {
	current, _ := ctx.Value(invocationKey{}).(*invocation)
	return current
}

// The metrics that are counts, and their names.
const (
	events = iota
	parked
	retried
	unreadable
	faults
	commits
	conflicts
	skipped
	awsCalls
)

var countNames = [...]string{"Events", "Parked", "Retried", "Unreadable", "Faults", "Commits", "Conflicts", "Skipped", "AWSCalls"}

// The metrics that keep the worst value of an invocation, in seconds, and their names.
const (
	unsettledAge = iota
	outboxAge
	backlogAge
	tokenDeadline
)

var extremeNames = [...]string{"UnsettledAge", "OutboxAge", "BacklogAge", "TokenDeadline"}

func (i *invocation) count(metric int) { i.add(metric, 1) }

func (i *invocation) add(metric, n int) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts[metric] += n
}

// age records an age if it is the oldest. It reports whether the age is the first of the invocation.
func (i *invocation) age(metric int, age time.Duration) (first bool) {
	if i == nil || age <= 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	first = !i.has[metric]
	i.extremes[metric], i.has[metric] = max(i.extremes[metric], age), true
	return first
}

// deadline records the time left for a task if it is the shortest.
func (i *invocation) deadline(left time.Duration) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.has[tokenDeadline] || left < i.extremes[tokenDeadline] {
		i.extremes[tokenDeadline], i.has[tokenDeadline] = left, true
	}
}

// metrics returns the counts that are not 0, and the extremes that are set. It returns AWSCalls even if it is 0.
func (i *invocation) metrics() []emf.Metric {
	var metrics []emf.Metric
	for metric, count := range i.counts {
		if count > 0 || metric == awsCalls {
			metrics = append(metrics, emf.Metric{Name: countNames[metric], Unit: emf.Count, Value: float64(count)})
		}
	}
	for metric, value := range i.extremes {
		if i.has[metric] {
			metrics = append(metrics, emf.Metric{Name: extremeNames[metric], Unit: emf.Seconds, Value: value.Seconds()})
		}
	}
	return metrics
}

// end closes the invocation and returns its metrics and spans. Later spans are dropped.
func (i *invocation) end() (metrics []emf.Metric, spans []otlp.Span, lost int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	return i.metrics(), i.spans, i.lost
}

// flush writes the metrics and spans of the invocation. If a service is still running, the calls that it makes
// afterwards are not included.
func (t *Telemetry) flush(ctx context.Context, invocation *invocation) {
	metrics, spans, lost := invocation.end()
	line, err := emf.Line(t.config.Now(), namespace, dimension, t.config.Service, metrics)
	if err == nil {
		t.writing.Lock()
		_, err = t.config.Metrics.Write(line)
		t.writing.Unlock()
	}
	if err != nil {
		t.config.Logger.WarnContext(ctx, "cannot write metrics", "error", err)
	}
	t.export(ctx, spans)
	if lost > 0 {
		t.config.Logger.WarnContext(ctx, "spans lost: too many in one invocation", "lost", lost, "spans_max", spansMax)
	}
}

const (
	// exportMax limits the time to send spans to the collector. The response of the invocation waits for the export.
	exportMax = 2 * time.Second
	// exportMargin is reserved for the response of the invocation.
	exportMargin = 250 * time.Millisecond
	// exportSlow is the minimum duration of a failed export that counts as a sign of an unresponsive collector.
	exportSlow = 200 * time.Millisecond
	// exportPause is the time without exports after the collector did not respond. Without a pause, every invocation
	// would wait.
	exportPause = 30 * time.Second
)

// collector is the state of the connection to the collector.
type collector struct {
	mu    sync.Mutex
	until time.Time // no exports before this time
	lost  int       // spans dropped during the pause
}

// isPaused reports whether exports are paused. If they are, it counts the spans as lost. Otherwise, it returns and
// resets the number of lost spans.
func (c *collector) isPaused(now time.Time, spans int) (paused bool, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		c.lost += spans
		return true, 0
	}
	lost, c.lost = c.lost, 0
	return false, lost
}

func (c *collector) pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
}

// export sends the spans to the collector. Spans that the collector does not accept are lost.
func (t *Telemetry) export(ctx context.Context, spans []otlp.Span) {
	if len(spans) == 0 {
		return
	}
	paused, before := t.isPaused(t.config.Now(), len(spans))
	if paused {
		return
	}
	if before > 0 {
		t.config.Logger.WarnContext(ctx, "spans lost: the collector did not respond", "lost", before)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-exportMargin))
		defer cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, exportMax)
	defer cancel()
	began := t.config.Now()
	err := t.exporter.Export(ctx, spans)
	if err == nil {
		return
	}
	if t.config.Now().Sub(began) >= exportSlow { // A collector that rejects immediately costs no time.
		t.pause(t.config.Now().Add(exportPause))
		t.config.Logger.WarnContext(ctx, "spans lost: the collector did not respond, exports are paused", "error", err, "wait", exportPause)
		return
	}
	t.config.Logger.WarnContext(ctx, "spans lost", "error", err)
}
