package xstatejson

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// settle returns a value under meta.settle of a state: a feature without an XState key.
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

// meta returns the state's own meta, or nil: the value of meta.settle.meta, or else the keys of meta other than settle.
func (n *stateNode) meta() any {
	meta := n.config.get("meta")
	if meta == nil || meta.kind == null {
		return nil
	}
	if meta.get("settle") == nil {
		return meta.raw()
	}
	if own := n.settle("meta"); own != nil && own.kind != null {
		return own.raw()
	}
	rest := value{kind: object}
	for _, m := range meta.members {
		if m.key != "settle" {
			rest.set(m.key, m.value)
		}
	}
	if len(rest.members) == 0 {
		return nil
	}
	return rest.raw()
}

func (r *reader[C]) deferred(n *stateNode, s *statechart.State[C]) {
	const key = "meta.settle.defer"
	each(join(n.at, key), n.settle("defer"), func(path string, v *value) {
		descriptor := r.text(path, v)
		if rank(descriptor) == exact && descriptor != "" {
			r.declare(path, descriptor)
		}
		s.Defer = append(s.Defer, descriptor)
	})
}

// number returns the milliseconds under a key as a duration, or 0.
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

// settleEvents declares the events listed in the machine's meta.settle.
func (r *reader[C]) settleEvents(*value) {
	for _, typ := range r.root.settle("events").strings() {
		r.declare("meta.settle.events", typ)
	}
	for _, typ := range r.root.settle("internal").strings() {
		r.declare("meta.settle.internal", typ)
		r.payloads[typ] = statechart.InternalOf[json.RawMessage]()
	}
}

// policy reads the timeout and the retry policy of an invocation.
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
