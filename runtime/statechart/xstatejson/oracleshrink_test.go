package xstatejson_test

import "slices"

// shrinkTriesMax is the maximum number of smaller machines to try.
const shrinkTriesMax = 300

// shrink returns a smaller machine that still differs, and the difference.
func shrink(oracle *xstate, d *drawn, difference string) (*drawn, string) {
	tries := 0
	for again := true; again; {
		again = false
		for i := 0; ; i++ {
			smaller := d.clone()
			if !smaller.reduce(i) {
				break
			}
			if smaller.size() >= d.size() {
				continue
			}
			if tries++; tries > shrinkTriesMax {
				return d, difference
			}
			verdict, now, err := compare(oracle, smaller.config(), smaller.events, engine(smaller, false))
			if err == nil && verdict == differing && !failed(now) {
				d, difference, again = smaller, now, true
				i--
			}
		}
	}
	return d, difference
}

// failed reports whether the difference is only that a machine is invalid.
func failed(difference string) bool { return len(difference) > 6 && difference[:6] == "errors" }

func (d *drawn) size() int { return len(d.config()) + len(text(d.events)) }

func (d *drawn) clone() *drawn {
	return &drawn{seed: d.seed, notes: d.notes, root: d.root.clone(), events: slices.Clone(d.events)} // the text is omitted
}

func (s *drawnState) clone() *drawnState {
	c := *s
	c.children = nil
	for _, child := range s.children {
		c.children = append(c.children, child.clone())
	}
	c.on, c.after = cloneOn(s.on), cloneOn(s.after)
	c.always, c.onDone = cloneTransitions(s.always), cloneTransitions(s.onDone)
	c.entry, c.exit, c.tags = slices.Clone(s.entry), slices.Clone(s.exit), slices.Clone(s.tags)
	return &c
}

func cloneOn(on []drawnOn) []drawnOn {
	var c []drawnOn
	for _, o := range on {
		c = append(c, drawnOn{o.key, cloneTransitions(o.transitions)})
	}
	return c
}

func cloneTransitions(transitions []*drawnTransition) []*drawnTransition {
	var c []*drawnTransition
	for _, t := range transitions {
		copied := *t
		copied.actions, copied.targets = slices.Clone(t.actions), slices.Clone(t.targets)
		c = append(c, &copied)
	}
	return c
}

// reduce applies the i-th reduction to the machine. It reports false if i is too large.
func (d *drawn) reduce(i int) bool {
	if i < len(d.events) {
		d.events = slices.Delete(d.events, i, i+1)
		return true
	}
	i -= len(d.events)
	done := false
	try := func(fn func()) {
		if i == 0 {
			fn()
			done = true
		}
		i--
	}
	var walk func(s *drawnState)
	walk = func(s *drawnState) {
		for k := range s.children {
			if done || k >= len(s.children) {
				return
			}
			c := s.children[k]
			try(func() { s.children = slices.Delete(s.children, k, k+1) })
			if !done && len(c.children) > 0 {
				try(func() { c.kind, c.children, c.initial, c.onDone = "atomic", nil, "", nil })
			}
			if !done {
				walk(c)
			}
		}
		lists := []*[]*drawnTransition{&s.always, &s.onDone}
		for k := range s.on {
			lists = append(lists, &s.on[k].transitions)
		}
		for k := range s.after {
			lists = append(lists, &s.after[k].transitions)
		}
		for _, list := range lists {
			for k := range *list {
				if done || k >= len(*list) {
					return
				}
				t := (*list)[k]
				try(func() { *list = slices.Delete(*list, k, k+1) })
				try(func() { t.guard = nil })
				try(func() { t.reenter = false })
				for a := range t.actions {
					if !done {
						try(func() { t.actions = slices.Delete(t.actions, a, a+1) })
					}
				}
			}
		}
		for _, on := range []*[]drawnOn{&s.on, &s.after} {
			for k := range *on {
				if !done {
					try(func() { *on = slices.Delete(*on, k, k+1) })
				}
			}
		}
		for _, list := range []*[]any{&s.entry, &s.exit} {
			for k := range *list {
				if !done {
					try(func() { *list = slices.Delete(*list, k, k+1) })
				}
			}
		}
		for _, drop := range []func(){
			func() { s.tags = nil }, func() { s.initialActions = false }, func() { s.output = nil },
			func() { s.id = map[bool]string{true: "m"}[s.key == "m"] },
		} {
			if !done {
				try(drop)
			}
		}
	}
	walk(d.root)
	return done
}
