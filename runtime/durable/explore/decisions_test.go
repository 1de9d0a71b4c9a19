package explore_test

// decisions says what becomes of the calls of one step. The search counts through all lists of decisions; a script names
// the decisions that are not ordinary.
type decisions struct {
	// list is what to decide, as far as it goes; then 0, the ordinary course.
	list []int
	// made are the decisions so far, and how many options each had. said names those that are not ordinary.
	made []decision
	said []string
	// script, if isScript is set, is what is yet to decide instead of list.
	script   []string
	isScript bool
}

type decision struct{ is, of int }

// pick decides between 0, the ordinary course, and options-1. name names an option; the ordinary course has no name.
// Names must be unique within a step, so that a script means one decision.
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

// allow decides whether something happens that has a name.
func (d *decisions) allow(name string) bool {
	return d.pick(2, func(int) string { return name }) == 1
}

// next returns the next list of decisions, false after the last.
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
