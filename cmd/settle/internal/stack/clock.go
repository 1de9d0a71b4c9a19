package stack

import (
	"context"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// clocked is a function in this process whose deadline is a time of the virtual clock. The consumer subtracts the time
// of its clock from the deadline to find out how much time an invocation has left.
type clocked struct {
	awslocal.Invoker
	clock *awslocal.Clock
}

// onClock returns the function with deadlines of Config.Clock, if there is one.
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

// clockContext shows its deadline as a time of the clock. It still ends at the deadline of the real clock.
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
