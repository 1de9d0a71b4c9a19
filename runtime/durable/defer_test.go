package durable_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestADeferredEventThatFailsIsParkedAlone fails at every call that parking it takes.
func TestADeferredEventThatFailsIsParkedAlone(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Load order/1", "Commit order/1", "Park order/1", "ClearOutbox order/1"} {
		for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "a"), event("wait", ""), `{"type": "refuse", "item": "poison", "$id": "p-1"}`, event("add", "b"))
				w.invoke()
				w.wantParked(t)
				w.names, w.calls = nil, nil
				w.hook = faults(map[string]fault{call + " #1": what})
				w.post("order/1", event("cancel", ""), event("add", "c"))
				w.run(t)
				if w.counted(call) == 0 {
					t.Errorf("%s was not called", call)
				}
				w.wantState(t, "order/1", "idle")
				w.wantLog(t, "order/1", "a", "b", "c")
				w.wantParked(t, [2]string{`{"$id":"p-1","bytes":0,"item":"poison","to":"","type":"refuse"}`, "action refuse: refused"})
				if shown := w.load("order/1").Error; shown == nil || shown.Event != "refuse" || !strings.Contains(shown.Message, "refused") {
					t.Errorf("%s, %v: the instance shows %+v", call, what, shown)
				}
			})
		}
	}
}
