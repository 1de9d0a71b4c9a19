// Package tracing describes the work of the loop (package durable) for distributed traces: which activities take place,
// and which trace a message belongs to.
package tracing

import "context"

// Kind is the kind of an Activity.
type Kind string

// The kinds of activities. A turn contains events and effects. An event contains services.
const (
	// Turn is one turn of an instance. Its Trace is the trace of the first delivery.
	Turn Kind = "turn"
	// Event is the work for one event, until its instance has settled. Name is the event's type, and Trace is the trace of
	// its delivery.
	Event Kind = "event"
	// Service is one attempt of a service. Name is the name of the service.
	Service Kind = "service"
	// Effect is one try of an effect. Name is its kind.
	Effect Kind = "effect"
)

// Activity is a piece of the loop's work, such as a turn or an attempt of a service.
type Activity struct {
	Kind     Kind
	Instance string
	Name     string
	Attempt  int
	Trace    Trace
}

// Trace is the position of a message in a distributed trace. The loop passes the trace of each delivery to
// durable.Observer.Begin. The adapters of durable.Queue and durable.Timers propagate the trace of the context.
type Trace struct {
	// Parent is a W3C traceparent.
	Parent string
	// AWS is an X-Ray trace header, as in the SQS attribute AWSTraceHeader.
	AWS string
}

type key struct{}

// With returns a context whose outgoing messages belong to the trace.
func With(ctx context.Context, trace Trace) context.Context {
	return context.WithValue(ctx, key{}, trace)
}

// Of returns the trace of the context, or the zero value.
func Of(ctx context.Context) Trace {
	trace, _ := ctx.Value(key{}).(Trace)
	return trace
}
