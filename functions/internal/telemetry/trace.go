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

	"github.com/settle-run/settle/functions/internal/otlp"
	"github.com/settle-run/settle/runtime/durable"
)

// spansMax is how many spans one invocation keeps.
const spansMax = 2000

// start begins a span within the trace of the context, or a trace if it has none. What is sent with the context returned is
// within the span.
func (t *Telemetry) start(ctx context.Context, name string, kind otlp.Kind, attributes ...otlp.Attribute) (context.Context, func(error)) {
	trace := durable.TraceOf(ctx)
	if trace.AWS == "" {
		// Lambda's own place in X-Ray's trace of the invocation.
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
	return durable.WithTrace(ctx, trace), func(err error) {
		if !span.Sampled {
			return
		}
		span.End = t.config.Now()
		if err != nil {
			// Not the error's text: it may quote what an event carries.
			span.Failed, span.Attributes = true, append(span.Attributes, otlp.Attribute{Key: "error.type", Value: errorType(err)})
		}
		invocationOf(ctx).keep(span)
	}
}

// placeOf returns the span that the trace leads to: W3C's or, if there is none, X-Ray's where that is sampled. Lambda names one to every
// invocation, also where X-Ray is off, and that is nobody's parent.
func placeOf(trace durable.Trace) (place otlp.SpanContext, ok bool) {
	if place, ok = otlp.Parse(trace.Parent); ok {
		return place, true
	}
	place, ok = otlp.ParseXRay(trace.AWS)
	return place, ok && place.Sampled
}

// keep notes a span that has ended.
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

// errorType names what kind of error it is.
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

// begin is durable.Observer's Begin.
func (t *Telemetry) begin(ctx context.Context, activity durable.Activity) (context.Context, func(error)) {
	name, kind := string(activity.Kind), otlp.Internal
	attributes := []otlp.Attribute{{Key: "settle.instance", Value: activity.Instance}}
	switch activity.Kind {
	case durable.TurnActivity, durable.EventActivity:
		kind = otlp.Consumer
		if activity.Trace != (durable.Trace{}) && !sameTrace(activity.Trace, durable.TraceOf(ctx)) {
			ctx = durable.WithTrace(ctx, activity.Trace)
		}
	case durable.ServiceActivity:
		kind = otlp.Client
	case durable.EffectActivity:
		if activity.Trace != (durable.Trace{}) {
			ctx = durable.WithTrace(ctx, activity.Trace) // That of the event that has asked for it.
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

// sameTrace reports whether the trace of a delivery is that of the context: then what is within the context's span stays there.
func sameTrace(a, b durable.Trace) bool {
	first, known := placeOf(a)
	second, ok := placeOf(b)
	return ok && (!known || first.TraceID == second.TraceID)
}

// HTTP returns the handler with a span for each request, within the trace that the client says.
func (t *Telemetry) HTTP(handler http.Handler) http.Handler {
	if t == nil || t.exporter == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := durable.WithTrace(r.Context(), durable.Trace{Parent: r.Header.Get("Traceparent"), AWS: r.Header.Get("X-Amzn-Trace-Id")})
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

// WriteHeader keeps the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// AWS has the calls that are made with the configuration counted, each try of its own, and traced, all tries together.
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
