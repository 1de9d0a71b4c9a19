package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestShadowedTransitionsAreFound(t *testing.T) {
	t.Parallel()
	const fix = "guard the first transition, move it behind the other, or remove one of them"
	on := func(transitions ...On) func(*Def, *S, *S) {
		return func(d *Def, wait, _ *S) {
			d.Payloads["mouse.click"] = statechart.NoPayload()
			wait.On = append(wait.On, transitions...)
		}
	}
	checkFlaws(t, []flaw{
		{"same event", on(On{Event: "GO"}), "wait", `on GO: the transition without a target is never taken, because "on GO" to "next" comes first and has no guard`, fix},
		{"guarded second", on(On{Event: "GO", Guard: yes, Target: "wait"}), "wait", `on GO: the transition to "wait" is never taken, because "on GO" to "next" comes first and has no guard`, fix},
		{"wildcard first", on(On{Event: "*"}, On{Event: "mouse.click", Target: "next"}), "wait", `on mouse.click: the transition to "next" is never taken, because "on *" without a target comes first and has no guard`, fix},
		{"prefix first", on(On{Event: "mouse.*"}, On{Event: "mouse.click", Target: "next"}), "wait", `on mouse.click: the transition to "next" is never taken, because "on mouse.*" without a target comes first and has no guard`, fix},
		{"prefix of a prefix", on(On{Event: "mouse.*"}, On{Event: "mouse.click.*", Target: "next"}), "wait", `on mouse.click.*: the transition to "next" is never taken, because "on mouse.*" without a target comes first and has no guard`, fix},
		{"always", func(_ *Def, _, next *S) {
			next.Tags, next.Always = nil, []On{{Target: "wait"}, {Guard: yes, Target: "wait"}}
		}, "next", `always: the transition to "wait" is never taken, because "always" to "wait" comes first and has no guard`, fix},
		{"timer", func(_ *Def, _, next *S) { next.After = []After{{ID: "x", Delay: 1, Target: "wait"}, {ID: "x"}} },
			"next", `after x: the transition without a target is never taken, because "after x" to "wait" comes first and has no guard`, fix},
		{"service", func(_ *Def, _, next *S) {
			next.Tags, next.Invoke = nil, []Invoke{service("", []On{{Target: "wait"}, {Target: "wait"}}, []On{{Target: "wait"}})}
		}, "next", `on done of call: the transition to "wait" is never taken, because "on done of call" to "wait" comes first and has no guard`, fix},
		{"root", func(d *Def, _, _ *S) { d.On = []On{{Event: "GO"}, {Event: "GO", Target: ".next"}} }, "",
			`on GO: the transition to "next" is never taken, because "on GO" without a target comes first and has no guard`, fix},
	})
	for name, change := range map[string]func(*Def, *S, *S){
		"guarded first":    func(_ *Def, wait, _ *S) { wait.On = []On{{Event: "GO", Guard: yes, Target: "next"}, {Event: "GO"}} },
		"wildcard last":    on(On{Event: "*"}),
		"another prefix":   on(On{Event: "mouse.*"}, On{Event: "*"}),
		"parent's as well": func(d *Def, _, _ *S) { d.On = []On{{Event: "GO"}} },
	} {
		if _, err := statechart.Compile(flawed(change)); err != nil {
			t.Errorf("%s: expected no finding, got %v", name, err)
		}
	}
}
