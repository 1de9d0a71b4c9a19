package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/instances"
)

// ErrBehind matches every *BehindError, with errors.Is.
var ErrBehind = errors.New("the instance is behind")

// BehindError is returned by Admit if the instance's backlog is too old.
type BehindError struct {
	Instance instances.ID
	// BacklogAge is how long the oldest event had waited at the last write. BacklogAgeMax is the limit of the machine.
	BacklogAge, BacklogAgeMax time.Duration
	// RetryAfter is how long to wait before the event is sent again.
	RetryAfter time.Duration
}

// Error states the age of the backlog, the limit and the advice.
func (e *BehindError) Error() string {
	return fmt.Sprintf("%v: the events of %s wait for %v, the limit is %v (BacklogAgeMax): nothing was queued, retry after %v",
		ErrBehind, e.Instance, e.BacklogAge, e.BacklogAgeMax, e.RetryAfter)
}

// Is reports whether the target is ErrBehind.
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// Admit returns a *BehindError if the instance's backlog is older than durable.MachineConfig.BacklogAgeMax. It reads
// the instance only if its machine has this limit. Call it before Reserve. Admit stops refusing events once
// BacklogAgeMax has passed since the last write of the instance. Otherwise it might refuse events forever, because a
// refused event causes no write.
func (p *Producer) Admit(ctx context.Context, event Event) error {
	machine, err := p.machines.Lookup(event.Message.To.Machine)
	if err != nil {
		return err
	}
	limit := machine.BacklogAgeMax()
	if limit <= 0 {
		return nil
	}
	record, err := p.store.Load(ctx, event.Message.To)
	if err != nil {
		return err
	}
	age, retryAfter := record.UpdatedAt.Sub(record.BacklogSince), record.UpdatedAt.Add(limit).Sub(p.now())
	if record.BacklogSince.IsZero() || age <= limit || retryAfter <= 0 {
		return nil
	}
	return &BehindError{Instance: record.Instance, BacklogAge: age, BacklogAgeMax: limit, RetryAfter: retryAfter}
}
