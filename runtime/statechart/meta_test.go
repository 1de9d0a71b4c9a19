package statechart_test

import (
	"strings"
	"testing"
)

func TestMetaReturnsActiveStatesByPath(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Meta: map[string]int{"width": 3}, Initial: "a", States: []S{
			{ID: "a", Meta: "first", On: []On{{Event: "GO", Target: "b"}, {Event: "LEAVE", Target: "#q"}}}, {ID: "b"},
		}},
		{ID: "q"},
	}})
	equal(t, "meta", text(t, r.step.Next.Meta()), `{"p":{"width":3},"p.a":"first"}`)
	stored := text(t, r.step.Next)
	equal(t, "stored with the snapshot", strings.Contains(stored, "first"), false)
	equal(t, "meta without state a", text(t, r.send("GO").step.Next.Meta()), `{"p":{"width":3}}`)
	restored, err := r.chart.Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "meta of a restored snapshot", text(t, restored.Meta()), `{"p":{"width":3},"p.a":"first"}`)
}

func TestMetaThatDoesNotMarshalIsRejected(t *testing.T) {
	t.Parallel()
	checkFlaws(t, []flaw{
		{"function", func(_ *Def, wait, _ *S) { wait.Meta = func() {} }, "wait",
			"has a Meta that does not marshal to JSON (json: unsupported type: func())", "use values that encoding/json can write"},
	})
}
