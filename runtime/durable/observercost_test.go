package durable

import (
	"testing"

	"github.com/settle-run/settle/runtime/tracing"
)

//nolint:paralleltest // Other tests' allocations would be counted.
func TestAnUnobservedActivityAllocatesNothing(t *testing.T) {
	loop, ctx := &Loop{}, t.Context()
	if n := testing.AllocsPerRun(100, func() {
		within, end := loop.begin(ctx, tracing.Activity{Kind: tracing.Event, Instance: "order/1", Name: "add", Attempt: 1})
		if within != ctx {
			t.Error("want the context as it is")
		}
		end(nil)
	}); n != 0 {
		t.Errorf("it allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if tracing.Of(ctx) != (tracing.Trace{}) {
			t.Error("want no trace")
		}
	}); n != 0 {
		t.Errorf("asking for a trace that is not there allocates %v times, want 0", n)
	}
}
