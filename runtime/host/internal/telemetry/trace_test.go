package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
	"github.com/settle-run/settle/runtime/tracing"
)

// TestSpanHasTheTypeOfItsError ends spans with wrapped errors of all types.
func TestSpanHasTheTypeOfItsError(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ThrottlingException": &smithy.GenericAPIError{Code: "ThrottlingException", Message: "canary"},
		"timeout":             context.DeadlineExceeded, "canceled": context.Canceled, "conflict": durable.ErrConflict,
		"unstorable": durable.ErrUnstorable, "_OTHER": errors.New("canary"),
	} {
		tele, ctx, current := withTraces(t, io.Discard)
		_, end := tele.start(ctx, "work", otlp.Internal)
		end(fmt.Errorf("storing order/1: %w", err))
		if len(current.spans) != 1 || !current.spans[0].Failed {
			t.Fatalf("%v: got the spans %+v, want one failed span", err, current.spans)
		}
		if diff := cmp.Diff([]otlp.Attribute{{Key: "error.type", Value: want}}, current.spans[0].Attributes); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestRequestSpanFailsOnlyOnServerErrors shows that a client error does not fail the span.
func TestRequestSpanFailsOnlyOnServerErrors(t *testing.T) {
	t.Parallel()
	for status, failed := range map[int]bool{0: false, http.StatusAccepted: false, http.StatusNotFound: false, 499: false, http.StatusInternalServerError: true, http.StatusServiceUnavailable: true} {
		tele, ctx, current := withTraces(t, io.Discard)
		handler := tele.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if status != 0 {
				w.WriteHeader(status)
			}
		}))
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody))
		if status != 0 && answer.Code != status {
			t.Errorf("got the status %d, want %d", answer.Code, status)
		}
		if len(current.spans) != 1 || current.spans[0].Failed != failed || current.spans[0].Kind != otlp.Server || current.spans[0].Name != "POST" {
			t.Errorf("status %d: got the spans %+v, want one server span with failed %v", status, current.spans, failed)
		}
	}
}

// TestActivityIsASpanOfItsKind checks name, kind and attributes of the spans of activities.
func TestActivityIsASpanOfItsKind(t *testing.T) {
	t.Parallel()
	instance := otlp.Attribute{Key: "settle.instance", Value: "order/1"}
	for _, c := range []struct {
		activity   tracing.Activity
		name       string
		kind       otlp.Kind
		attributes []otlp.Attribute
	}{
		{tracing.Activity{Kind: tracing.Turn, Instance: "order/1"}, "turn", otlp.Consumer, []otlp.Attribute{instance}},
		{tracing.Activity{Kind: tracing.Event, Instance: "order/1", Name: "PAY", Attempt: 2}, "event PAY", otlp.Consumer, []otlp.Attribute{instance, {Key: "settle.attempt", Value: "2"}}},
		{tracing.Activity{Kind: tracing.Service, Instance: "order/1", Name: "charge", Attempt: 1}, "service charge", otlp.Client, []otlp.Attribute{instance, {Key: "settle.attempt", Value: "1"}}},
		{tracing.Activity{Kind: tracing.Effect, Instance: "order/1", Name: "send"}, "effect send", otlp.Producer, []otlp.Attribute{instance}},
	} {
		tele, ctx, current := withTraces(t, io.Discard)
		_, end := tele.Observer().Begin(ctx, c.activity)
		end(nil)
		if len(current.spans) != 1 {
			t.Fatalf("%s: got %d spans, want one", c.name, len(current.spans))
		}
		if got := current.spans[0]; got.Name != c.name || got.Kind != c.kind || got.Failed || !cmp.Equal(got.Attributes, c.attributes) {
			t.Errorf("got the span %+v, want %s of kind %d with %v", got, c.name, c.kind, c.attributes)
		}
	}
}
