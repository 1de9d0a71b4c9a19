// Package telemetry tells what a function does: a line of log for each event, a line of metrics for each invocation, and
// spans if somebody takes them. All of it is out before the invocation ends, after which Lambda freezes the process.
//
// Nothing of it holds what an event carries but its type, unless payloads are asked for; no task token and no key is ever in it.
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

	"github.com/settle-run/settle/functions/internal/emf"
	"github.com/settle-run/settle/functions/internal/otlp"
)

// Config says what is told, and to whom.
type Config struct {
	// Service is the name that metrics and spans go by.
	Service string
	// Logger takes the lines of the log. Required.
	Logger *slog.Logger
	// Payloads says that the log shows what events carry.
	Payloads bool
	// Metrics takes the lines of metrics. Required.
	Metrics io.Writer
	// Now is the clock. Required.
	Now func() time.Time
	// TracesEndpoint is the collector that takes the spans; nil means that there are none. TracesHeaders are for it.
	TracesEndpoint *url.URL
	TracesHeaders  map[string]string
	// TracesClient makes the requests to the collector. Required if there is one.
	TracesClient *http.Client
	// Resource is what spans say of the function, beside the service.
	Resource []otlp.Attribute
}

// Telemetry tells what a function does. Nil tells nothing. It is safe for concurrent use.
type Telemetry struct {
	config   Config
	exporter *otlp.Exporter // nil if nothing is traced
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

// namespace is that of all metrics, dimension the only one that they have.
const (
	namespace = "Settle"
	dimension = "Service"
)

// Handler returns the handler, told of: each invocation ends with its line of metrics, and with its spans.
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

// invocation is what one invocation has done so far.
type invocation struct {
	mu sync.Mutex
	// counts are those of the metrics below.
	counts [len(countNames)]int
	// extremes are the oldest ages and the nearest deadline; has says which there are.
	extremes [len(extremeNames)]time.Duration
	has      [len(extremeNames)]bool
	spans    []otlp.Span
	lost     int // spans beyond spansMax
	over     bool
}

type invocationKey struct{}

// invocationOf returns the invocation that the context is of, nil if it is of none.
func invocationOf(ctx context.Context) *invocation {
	current, _ := ctx.Value(invocationKey{}).(*invocation)
	return current
}

// The metrics that count, and their names.
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

// The metrics of which an invocation has the worst, in seconds, and their names.
const (
	unsettledAge = iota
	outboxAge
	tokenDeadline
)

var extremeNames = [...]string{"UnsettledAge", "OutboxAge", "TokenDeadline"}

func (i *invocation) count(metric int) { i.add(metric, 1) }

func (i *invocation) add(metric, n int) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts[metric] += n
}

// age notes an age, if it is the oldest.
func (i *invocation) age(metric int, age time.Duration) {
	if i == nil || age <= 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.extremes[metric], i.has[metric] = max(i.extremes[metric], age), true
}

// deadline notes how long it is until a task times out, if that is the nearest.
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

// metrics returns those of the invocation: the counts that are not 0, the calls of AWS in any case, and the ages that there are.
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

// end returns what the invocation has done. From then on nothing is kept of it.
func (i *invocation) end() (metrics []emf.Metric, spans []otlp.Span, lost int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	return i.metrics(), i.spans, i.lost
}

// flush writes what the invocation has done. What comes later, of a service that did not end with it, is not told.
func (t *Telemetry) flush(ctx context.Context, invocation *invocation) {
	metrics, spans, lost := invocation.end()
	line, err := emf.Line(t.config.Now(), namespace, dimension, t.config.Service, metrics)
	if err == nil {
		t.writing.Lock()
		_, err = t.config.Metrics.Write(line)
		t.writing.Unlock()
	}
	if err != nil {
		t.config.Logger.WarnContext(ctx, "metrics are not written", "error", err)
	}
	t.export(ctx, spans)
	if lost > 0 {
		t.config.Logger.WarnContext(ctx, "spans are lost, one invocation had too many", "lost", lost, "spans_max", spansMax)
	}
}
