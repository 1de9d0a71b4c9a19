package statechart_test

import (
	"fmt"
	"strings"
)

func dump(def Def) string {
	var b strings.Builder
	fmt.Fprintf(&b, "root parallel=%v initial=%s\n", def.Parallel, def.Initial)
	var w func(states []S, in string)
	tr := func(in, what string, ts []On) {
		for _, t := range ts {
			var as []string
			for _, a := range t.Actions {
				as = append(as, a.Name)
			}
			fmt.Fprintf(&b, "%s   %s %s -> %s [%s] reenter=%v %v\n", in, what, t.Event, t.Target, t.Guard.Name, t.Reenter, as)
		}
	}
	w = func(states []S, in string) {
		for _, s := range states {
			fmt.Fprintf(&b, "%s%s type=%d initial=%s target=%s\n", in, s.ID, s.Type, s.Initial, s.Target)
			tr(in, "on", s.On)
			tr(in, "always", s.Always)
			tr(in, "done", s.OnDone)
			for _, a := range s.After {
				fmt.Fprintf(&b, "%s   after %v -> %s\n", in, a.Delay, a.Target)
			}
			w(s.States, in+"  ")
		}
	}
	w(def.States, "  ")
	return b.String()
}
