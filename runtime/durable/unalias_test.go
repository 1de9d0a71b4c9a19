package durable_test

import (
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// An instance that has not ended gives an alias away. To release one that it does not have changes nothing.
func TestAnAliasThatAChartReleasesIsFreeForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		unalias := statechart.Unalias(func(_ basket, e statechart.Event) string { return e.Payload.(item).Item })
		refused := statechart.Assign("refused", func(b *basket, e takenAlias) { b.Log = append(b.Log, "taken: "+e.Alias) })
		w.host(t, callerOf(on{Event: "cancel", Actions: do{unalias}}, on{Event: durable.AliasTaken, Actions: do{refused}}))
		w.post("caller/1", event("add", "x-7"), event("cancel", "x-7"))
		w.run(t)
		w.post("caller/2", event("add", "x-7"))
		w.run(t)
		w.post("caller/1", event("cancel", "x-7"))
		w.run(t)
		w.post("caller/3", event("add", "x-7"))
		w.run(t)
		w.wantLog(t, "caller/2")
		w.wantLog(t, "caller/3", "taken: x-7")
		w.wantParked(t)
		w.wantSound(t)
	})
}
