package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// AWS refuses the message that starts a child.
func TestAStartThatIsRefusedReachesTheParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.refuse = refusing(durable.ErrRefused, "Send courier/")
		w.post(boss1, ship)
		w.run(t)
		w.wantState(t, boss1, "idle")
		if log := w.logOf(t, boss1); len(log) != 1 || len(w.stored("courier")) > 0 {
			t.Errorf("want boss/1 told once and no courier, got %q and %q", log, w.stored("courier"))
		}
	})
}

// AWS refuses the message that starts a child, and denies the report of this refusal for more than an hour.
func TestAStartThatIsRefusedReachesTheParentLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		start, report := refusing(durable.ErrRefused, "Send courier/"), refusing(durable.ErrDenied, "Send boss/1")
		w.refuse = func(call string) error { return errors.Join(start(call), report(call)) }
		w.post(boss1, ship)
		w.runFor(t, 3*time.Hour)
		w.refuse = start
		w.run(t)
		w.wantState(t, boss1, "idle")
	})
}

// AWS denies the message that starts a child for more than an hour.
func TestAStartThatIsDeniedReachesTheChildLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.refuse = refusing(durable.ErrDenied, "Send courier/")
		w.post(boss1, ship)
		w.runFor(t, 3*time.Hour)
		w.refuse = nil
		w.run(t)
		w.wantFamily(t, "courier active, radio active")
	})
}

// byItself stands for a child that ends without an operator.
const byItself instances.OperationKind = ""

// endVan ends boss/1's courier. It returns the entry that boss/1 will log.
func (w *world) endVan(t *testing.T, kind instances.OperationKind) (entry string) {
	t.Helper()
	van := w.van(t)
	if kind == byItself {
		w.post(van, event("finish", ""))
		return `back "parcel board ok"`
	}
	w.operate(t, van, instances.Operation{Kind: kind})
	return fmt.Sprintf("lost courier: an operator ended %s in [driving] (%s): test", van, kind)
}

// AWS denies the report of a child's end for more than an hour.
func TestAnEndThatIsDeniedReachesTheParentLater(t *testing.T) {
	t.Parallel()
	for _, kind := range slices.Concat(endings, []instances.OperationKind{byItself}) {
		synctest.Test(t, func(t *testing.T) {
			w := newFamily(t)
			w.post(boss1, ship)
			w.run(t)
			entry := w.endVan(t, kind)
			w.refuse = refusing(durable.ErrDenied, "Send boss/1")
			w.runFor(t, 3*time.Hour)
			w.refuse = nil
			w.runFor(t, 30*24*time.Hour)
			w.wantState(t, boss1, "idle")
			w.wantLog(t, boss1, entry)
		})
	}
}

// AWS denies the message that stops a child for more than an hour.
func TestAStopThatIsDeniedReachesTheChildLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.post(boss1, ship)
		w.run(t)
		w.refuse = refusing(durable.ErrDenied, "Send courier/")
		w.post(boss1, event("cancel", ""))
		w.runFor(t, 3*time.Hour)
		w.refuse = nil
		w.post(boss1, event("add", "x"))
		w.runFor(t, 30*24*time.Hour)
		w.wantFamily(t, "courier stopped, radio stopped", "x")
	})
}
