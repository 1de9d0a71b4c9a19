package xstatejson

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// settle returns what stands under meta.settle of a state: what XState has no key for.
func (n *stateNode) settle(key string) *value {
	meta := n.config.get("meta")
	if meta == nil {
		return nil
	}
	if own := meta.get("settle"); own != nil {
		return own.get(key)
	}
	return nil
}

// number returns a number of milliseconds of an object, 0 if there is none.
func (v *value) number(key string) time.Duration {
	if v == nil {
		return 0
	}
	given := v.get(key)
	if given == nil || given.kind != number {
		return 0
	}
	delay, _ := milliseconds(given.text)
	return max(delay, 0)
}

// settleEvents declares the events that meta.settle of the machine lists.
func (r *reader[C]) settleEvents(*value) {
	for _, typ := range r.root.settle("events").strings() {
		r.declare("meta.settle.events", typ)
	}
	for _, typ := range r.root.settle("internal").strings() {
		r.declare("meta.settle.internal", typ)
		r.payloads[typ] = statechart.InternalOf[json.RawMessage]()
	}
}

// policy reads how long an invocation may take and how it is retried.
func (r *reader[C]) policy(v *value, invoke *statechart.Invoke[C]) {
	invoke.Timeout = v.number("timeout")
	retry := v.get("retry")
	if retry == nil {
		return
	}
	if attempts := retry.get("attempts"); attempts != nil {
		invoke.Retry.Attempts, _ = strconv.Atoi(attempts.text)
	}
	if rate := retry.get("rate"); rate != nil {
		invoke.Retry.Rate, _ = strconv.ParseFloat(rate.text, 64)
	}
	invoke.Retry.Interval, invoke.Retry.IntervalMax = retry.number("interval"), retry.number("intervalMax")
}
