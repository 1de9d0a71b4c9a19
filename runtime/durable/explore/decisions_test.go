package explore_test

// decisions chooses the outcome of each call in one step. The search enumerates all lists of decisions. A script names the
// decisions other than the default.
type decisions struct {
	// list holds the decisions to make. After its end, each decision is 0, the default.
	list []int
	// made holds the decisions so far, with their numbers of options. `said` names the decisions other than the
	// default.
	made []decision
	said []string
	// script holds the remaining names of a script. It replaces `list` if isScript is set.
	script   []string
	isScript bool
}

type decision struct{ is, of int }

// pick chooses a number from 0, the default, to options-1. `name` returns the name of an option other than the default.
// Names must be unique within a step, so that each name in a script means one decision.
func (d *decisions) pick(options int, name func(int) string) int {
	is := 0
	switch {
	case d.isScript:
		for i := 1; i < options && len(d.script) > 0; i++ {
			if name(i) == d.script[0] {
				is, d.script = i, d.script[1:]
				break
			}
		}
	case len(d.made) < len(d.list):
		if is = d.list[len(d.made)]; is >= options {
			panic("the step differs from its earlier run: something in it is not deterministic")
		}
	}
	d.made = append(d.made, decision{is, options})
	if is > 0 {
		d.said = append(d.said, name(is))
	}
	return is
}

// allow decides whether the named thing happens. The default is no.
func (d *decisions) allow(name string) bool {
	return d.pick(2, func(int) string { return name }) == 1
}

// next returns the next list of decisions, or false after the last one.
func (d *decisions) next() ([]int, bool) {
	for k := len(d.made) - 1; k >= 0; k-- {
		if d.made[k].is+1 == d.made[k].of {
			continue
		}
		list := make([]int, k+1)
		for i := range list {
			list[i] = d.made[i].is
		}
		list[k]++
		return list, true
	}
	return nil, false
}
