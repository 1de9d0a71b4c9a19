package durable

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// verdict is the decision about a delivery.
type verdict int

const (
	// applicable deliveries are applied to the instance.
	applicable verdict = iota
	// skipped deliveries are duplicates or stale.
	skipped
	// poisoned deliveries can never be applied. The error gives the reason.
	poisoned
	// undecided deliveries are retried. The error gives the reason.
	undecided
)

// admit decides whether a delivery is applied, skipped, parked or retried.
func (t *turn) admit(ctx context.Context, d Delivery) (event statechart.Event, v verdict, err error) {
	if d.SequenceNumber == "" {
		return event, poisoned, fmt.Errorf("expected a delivery of a FIFO queue, which has a sequence number, got none from %q", d.Queue)
	}
	if t.isApplied(d) || t.isForwarded(d) {
		return event, skipped, nil
	}
	event, err = t.machine.Decode([]byte(d.Body))
	if own, ok := ownMessages[event.Type]; ok {
		v, err = own.check(t, d)
	} else {
		v, err = t.admitEvent(d, event, err)
	}
	if v == poisoned { // A build that accepts the event may have applied it already.
		known, unknown := t.isDuplicate(ctx, d, eventHead(json.RawMessage(d.Body)).ID)
		if known == skipped || known == undecided {
			v, err = known, unknown
		}
	}
	if v != applicable {
		return event, v, err
	}
	token, err := tokenOf(d)
	switch {
	case err != nil:
		return event, poisoned, err
	case token != nil && t.loop.ports.Tokens == nil:
		return event, poisoned, fmt.Errorf("the event has a Step Functions task token: %w", errNoTokens)
	case token != nil && event.ID == "":
		event.ID = taskIDPrefix + token.Key // The same token means the same event.
	}
	if v, err = t.isDuplicate(ctx, d, event.ID); v == applicable && err == nil && token != nil {
		if err = checkWaitName(token.Name, t.machine); err != nil {
			v = poisoned
		}
	}
	if v == applicable && err == nil {
		if err = t.checkHops(event); err != nil {
			v = poisoned
		}
	}
	return event, v, err
}

// admitEvent does the work of admit for the chart's own events. `event` and `err` are the result of Decode.
func (t *turn) admitEvent(d Delivery, event statechart.Event, err error) (verdict, error) {
	switch {
	case err != nil:
		return poisoned, err
	case event.Type == statechart.TimerEvent && (t.draft.Instance == nil || !t.isTimer(event.Timer, d.Body)):
		return skipped, nil
	case isEnd(t.machine, event.Type):
		return poisoned, fmt.Errorf("event type %q is %w: only the loop itself sends it", event.Type, ErrReserved)
	}
	err = t.checkAddressee(d.Body)
	if err == nil && t.draft.Instance == nil {
		err = t.checkBegins(event.Type)
	}
	if err != nil {
		return poisoned, err
	}
	return applicable, nil
}
