package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
	"github.com/settle-run/settle/runtime/tracing"
)

// spansMax is the limit of spans per invocation.
const spansMax = 2000

// start starts a span within the trace of the context. If the context has no trace, the span starts a new one. Messages
// sent with the returned context are children of the span.
func (t *Telemetry) start(ctx context.Context, name string, kind otlp.Kind, attributes ...otlp.Attribute) (context.Context, func(error)) {
	trace := tracing.Of(ctx)
	if trace.AWS == "" {
		// This is Lambda's X-Ray header of the invocation.
		trace.AWS, _ = ctx.Value("x-amzn-trace-id").(string)
	}
	parent, isChild := placeOf(trace)
	span := otlp.Span{Name: name, Kind: kind, Start: t.config.Now(), Attributes: attributes}
	if isChild {
		span.SpanContext, span.Parent = parent.Child(parent.Sampled), parent.SpanID
	} else {
		span.SpanContext = otlp.New()
	}
	trace.Parent = span.SpanContext.String()
	return tracing.With(ctx, trace), func(err error) {
		if !span.Sampled {
			return
		}
		span.End = t.config.Now()
		if err != nil {
			// Do not add the error's text. It may quote an event's payload.
			span.Failed, span.Attributes = true, append(span.Attributes, otlp.Attribute{Key: "error.type", Value: errorType(err)})
		}
		invocationOf(ctx).keep(span)
	}
}

// placeOf returns the span that the trace identifies: the traceparent's, or else X-Ray's if it is sampled. Lambda sets
// an X-Ray header for every invocation. If X-Ray is off, the span in that header does not exist.
func placeOf(trace tracing.Trace) (place otlp.SpanContext, ok bool) {
	if place, ok = otlp.Parse(trace.Parent); ok {
		return place, true
	}
	place, ok = otlp.ParseXRay(trace.AWS)
	return place, ok && place.Sampled
}

// keep records a finished span.
func (i *invocation) keep(span otlp.Span) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.over:
	case len(i.spans) >= spansMax:
		i.lost++
	default:
		i.spans = append(i.spans, span)
	}
}

// errorType returns the type of an error for a span.
func errorType(err error) string {
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		return api.ErrorCode()
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, durable.ErrConflict):
		return "conflict"
	case errors.Is(err, durable.ErrUnstorable):
		return "unstorable"
	default:
		return "_OTHER"
	}
}

// begin implements durable.Observer's Begin.
func (t *Telemetry) begin(ctx context.Context, activity tracing.Activity) (context.Context, func(error)) {
	name, kind := string(activity.Kind), otlp.Internal
	attributes := []otlp.Attribute{{Key: "settle.instance", Value: activity.Instance}}
	switch activity.Kind {
	case tracing.Turn, tracing.Event:
		kind = otlp.Consumer
		if activity.Trace != (tracing.Trace{}) && !sameTrace(activity.Trace, tracing.Of(ctx)) {
			ctx = tracing.With(ctx, activity.Trace)
		}
	case tracing.Service:
		kind = otlp.Client
	case tracing.Effect:
		if activity.Trace != (tracing.Trace{}) {
			ctx = tracing.With(ctx, activity.Trace) // This is the trace of the event that caused the effect.
		}
		kind = otlp.Producer
	}
	if activity.Name != "" {
		name += " " + activity.Name
	}
	if activity.Attempt > 0 {
		attributes = append(attributes, otlp.Attribute{Key: "settle.attempt", Value: strconv.Itoa(activity.Attempt)})
	}
	return t.start(ctx, name, kind, attributes...)
}

// sameTrace reports whether new spans for a delivery belong within the span of the context. `a` is the trace of the
// delivery, and `b` is the trace of the context. The result is true if both traces are the same, or if only `b`
// identifies a span.
func sameTrace(a, b tracing.Trace) bool {
	first, known := placeOf(a)
	second, ok := placeOf(b)
	return ok && (!known || first.TraceID == second.TraceID)
}

// HTTP wraps the handler with a span for each request, within the client's trace.
func (t *Telemetry) HTTP(handler http.Handler) http.Handler {
	if t == nil || t.exporter == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := tracing.With(r.Context(), tracing.Trace{Parent: r.Header.Get("Traceparent"), AWS: r.Header.Get("X-Amzn-Trace-Id")})
		ctx, end := t.start(ctx, r.Method, otlp.Server, otlp.Attribute{Key: "http.request.method", Value: r.Method})
		answer := &statusWriter{ResponseWriter: w}
		defer func() {
			var err error
			if answer.status >= http.StatusInternalServerError {
				err = errors.New(http.StatusText(answer.status))
			}
			end(err)
		}()
		handler.ServeHTTP(answer, r.WithContext(ctx))
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// AWS counts and traces the calls made with the configuration. It counts every attempt. A span covers all attempts of a
// call.
func (t *Telemetry) AWS(config *aws.Config) {
	if t == nil {
		return
	}
	config.APIOptions = append(config.APIOptions, func(stack *middleware.Stack) error {
		err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("SettleCount",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				invocationOf(ctx).count(awsCalls)
				return next.HandleDeserialize(ctx, in)
			}), middleware.Before)
		if err != nil || t.exporter == nil {
			return err
		}
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("SettleTrace",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
				ctx, end := t.start(ctx, service+"."+operation, otlp.Client, otlp.Attribute{Key: "rpc.system", Value: "aws-api"},
					otlp.Attribute{Key: "rpc.service", Value: service}, otlp.Attribute{Key: "rpc.method", Value: operation})
				out, metadata, err := next.HandleInitialize(ctx, in)
				end(err)
				return out, metadata, err
			}), middleware.After)
	})
}
