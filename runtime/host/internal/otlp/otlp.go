// Package otlp sends spans to an OpenTelemetry collector, by OTLP over HTTP in the JSON format:
// https://opentelemetry.io/docs/specs/otlp/#otlphttp
//
// The official exporter links gRPC, which adds four to seven megabytes to an executable. It also adds two thirds of a
// bare handler's CPU time to the start. See docs/adr/0025-observability.md.
package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SpanContext identifies a span and its trace.
type SpanContext struct {
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool
}

// New returns the context of a root span.
func New() SpanContext {
	var c SpanContext
	for c.TraceID == [16]byte{} {
		random(c.TraceID[:])
	}
	return c.Child(true)
}

// Child returns the context of a child span.
func (c SpanContext) Child(sampled bool) SpanContext {
	for c.SpanID = [8]byte{}; c.SpanID == [8]byte{}; {
		random(c.SpanID[:])
	}
	c.Sampled = sampled
	return c
}

// random fills an ID, which need not be secret.
func random(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
}

// Parse parses a traceparent (W3C Trace Context, version 00). It ignores additions of later versions. ok is false if
// the traceparent is invalid.
func Parse(traceparent string) (c SpanContext, ok bool) {
	parts := strings.SplitN(traceparent, "-", 5)
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(traceparent) != traceparent {
		return SpanContext{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], parts[0]}, {c.TraceID[:], parts[1]}, {c.SpanID[:], parts[2]}, {flags[:], parts[3]}} {
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return SpanContext{}, false
		}
	}
	c.Sampled = flags[0]&1 == 1
	return c, c.TraceID != [16]byte{} && c.SpanID != [8]byte{}
}

// ParseXRay parses an X-Ray trace header, such as
// Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1. ok is false if it names no span. The
// trace ID is the Root without hyphens, as in all conversions between X-Ray and OpenTelemetry:
// https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html#xray-api-traceids
func ParseXRay(header string) (c SpanContext, ok bool) {
	root, parent, flags := "", "", "00"
	for field := range strings.SplitSeq(header, ";") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(field), "="); key {
		case "Root":
			root = value
		case "Parent":
			parent = value
		case "Sampled":
			if value == "1" {
				flags = "01"
			}
		}
	}
	digits, ok := strings.CutPrefix(root, "1-")
	if !ok || len(root) != 35 {
		return SpanContext{}, false
	}
	return Parse(strings.ToLower("00-" + strings.Replace(digits, "-", "", 1) + "-" + parent + "-" + flags))
}

// String returns the traceparent for children of the span.
func (c SpanContext) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.TraceID[:]) + "-" + hex.EncodeToString(c.SpanID[:]) + "-" + flags
}

// Kind is the role of a span in a call. The protocol defines the numbers.
type Kind int

// The kinds of spans.
const (
	Internal Kind = iota + 1
	Server
	Client
	Producer
	Consumer
)

// Span is a finished piece of work.
type Span struct {
	SpanContext
	// Parent is zero for a root span.
	Parent     [8]byte
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	// Failed sets the span's status to error.
	Failed bool
}

// Attribute describes a span or a resource.
type Attribute struct{ Key, Value string }

// Exporter sends spans. It is safe for concurrent use.
type Exporter struct {
	client   *http.Client
	url      string
	headers  map[string]string
	resource []Attribute
}

// NewExporter returns an exporter to the collector at the base URL, with additional headers. All spans belong to the
// resource.
func NewExporter(client *http.Client, endpoint *url.URL, headers map[string]string, resource []Attribute) *Exporter {
	return &Exporter{client: client, url: endpoint.JoinPath("v1", "traces").String(), headers: headers, resource: resource}
}

// answerBytesMax limits how much of a response is read.
const answerBytesMax = 64 << 10

// Export sends the spans in one request, without retries. Spans that are not delivered are lost.
func (e *Exporter) Export(ctx context.Context, spans []Span) error {
	body, err := json.Marshal(requestOf(e.resource, spans))
	if err != nil {
		return fmt.Errorf("exporting %d spans: %w", len(spans), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("exporting %d spans: %w", len(spans), err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range e.headers {
		request.Header.Set(name, value)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("exporting %d spans: %w", len(spans), err)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("exporting %d spans: reading the answer: %w", len(spans), err)
	}
	var partial struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	switch {
	case response.StatusCode/100 != 2: // Some collectors answer 202.
		return fmt.Errorf("exporting %d spans to %s: expected status 200, got %d", len(spans), e.url, response.StatusCode)
	case json.Unmarshal(answer, &partial) == nil && partial.PartialSuccess.RejectedSpans != "" && partial.PartialSuccess.RejectedSpans != "0":
		return fmt.Errorf("exporting %d spans to %s: %s were rejected", len(spans), e.url, partial.PartialSuccess.RejectedSpans)
	default:
		return nil
	}
}

// scope is the name of the instrumentation scope.
const scope = "github.com/settle-run/settle"

// object is the value of a JSON object.
type object map[string]any

// statusError is STATUS_CODE_ERROR.
const statusError = 2

// requestOf returns an ExportTraceServiceRequest in its JSON form: IDs are hexadecimal and 64-bit integers are strings.
func requestOf(attributes []Attribute, spans []Span) object {
	made := make([]object, len(spans))
	for i, span := range spans {
		made[i] = object{
			"traceId": hex.EncodeToString(span.TraceID[:]), "spanId": hex.EncodeToString(span.SpanID[:]), "name": span.Name, "kind": span.Kind,
			"startTimeUnixNano": strconv.FormatInt(span.Start.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(span.End.UnixNano(), 10),
			"attributes": keyValues(span.Attributes),
		}
		if span.Parent != [8]byte{} {
			made[i]["parentSpanId"] = hex.EncodeToString(span.Parent[:])
		}
		if span.Failed {
			made[i]["status"] = object{"code": statusError}
		}
	}
	scopeSpans := []object{{"scope": object{"name": scope}, "spans": made}}
	return object{"resourceSpans": []object{{"resource": object{"attributes": keyValues(attributes)}, "scopeSpans": scopeSpans}}}
}

func keyValues(attributes []Attribute) []object {
	made := make([]object, len(attributes))
	for i, attribute := range attributes {
		made[i] = object{"key": attribute.Key, "value": object{"stringValue": attribute.Value}}
	}
	return made
}
