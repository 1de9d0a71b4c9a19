package stack

import (
	"context"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// clocked is a function in this process whose deadline is a time of the virtual clock. To find out how much time an
// invocation has left, the consumer subtracts its clock's time from the deadline.
type clocked struct {
	awslocal.Invoker
	clock *awslocal.Clock
}

// onClock returns the function. If Config.Clock is set, the function's deadlines are times of that clock.
func (s *Stack) onClock(start function) function {
	if s.config.Clock == nil {
		return start
	}
	return func() awslocal.Invoker { return clocked{start(), s.config.Clock} }
}

// Invoke implements awslocal.Invoker.
func (f clocked) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return f.Invoker.Invoke(clockContext{ctx, f.clock}, payload)
}

// clockContext reports its deadline as a time of the virtual clock, but it ends at the deadline of the real clock.
type clockContext struct {
	context.Context
	clock *awslocal.Clock
}

// Deadline implements context.Context.
func (c clockContext) Deadline() (deadline time.Time, ok bool) {
	if deadline, ok = c.Context.Deadline(); ok {
		deadline = deadline.Add(c.clock.Ahead())
	}
	return deadline, ok
}
