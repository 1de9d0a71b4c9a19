package statecharttest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// Coverage counts the entered states and the taken transitions of one chart. RunScripts returns a Coverage, and a
// player fills the Coverage in its Config. Rolled-back steps and history states do not count. The zero value is ready
// for use. A Coverage is safe for concurrent use and must not be copied after first use.
type Coverage struct {
	mu sync.Mutex
	// chart names the chart. It is "" until the first player starts.
	chart  string
	states []statechart.StateInfo
	// items holds the states, then the transitions, each in document order.
	items []item
	// entered maps a state's path to the index of its item. `taken` is the index of the first transition.
	entered map[string]int
	taken   int
	// `scripts` counts the planned scripts, and `played` counts the completed scripts.
	scripts, played int
}

// item is a state or a transition.
type item struct {
	// name is unique within the chart.
	name       string
	transition bool
	covered    bool
	info       statechart.TransitionInfo
}

// States returns the numbers of entered states and of all states. Both are 0 before a player has started.
func (c *Coverage) States() (covered, all int) { return c.count(false) }

// Transitions returns the numbers of taken transitions and of all transitions.
func (c *Coverage) Transitions() (covered, all int) { return c.count(true) }

func (c *Coverage) count(transitions bool) (covered, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.items {
		if c.items[i].transition != transitions {
			continue
		}
		all++
		if c.items[i].covered {
			covered++
		}
	}
	return covered, all
}

// Missed returns the names of uncovered states, then of uncovered transitions, each in document order. Names are unique
// within a chart:
//
//	state expired
//	queued after pick_up [launchesLeft] -> launching
//	unverified.awaiting_verification on VERIFY
//	(chart) on completed -> other
//
// A transition's name consists of its source, trigger, guard and targets. Further transitions with the same name get
// the suffix " #2", " #3" and so on.
func (c *Coverage) Missed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missed []string
	for i := range c.items {
		if !c.items[i].covered {
			missed = append(missed, c.items[i].name)
		}
	}
	return missed
}

// Report returns the counts and the misses as text, one per line.
func (c *Coverage) Report() string {
	states, allStates := c.States()
	transitions, allTransitions := c.Transitions()
	c.mu.Lock()
	chart := c.chart
	c.mu.Unlock()
	if chart == "" {
		return "no chart was played\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d states, %d of %d transitions\n", chart, states, allStates, transitions, allTransitions)
	for _, name := range c.Missed() {
		fmt.Fprintf(&b, "  missed %s\n", name)
	}
	return b.String()
}

// AllowedMiss is a state or transition that need not be covered.
type AllowedMiss struct {
	// Name is a name that Missed returns.
	Name string
	// Reason explains the miss to readers of the test.
	Reason string
}

// Require checks the coverage once the test and its subtests have ended. It fails the test if a miss is not allowed. It
// also fails the test if an allowed miss has no reason, is not in the chart, or is covered.
//
// If the test has failed for another reason, such as an error of FinalPaths, Require logs this and does not check the
// coverage. It also skips the check if the test did not play all its scripts, as with -run TestScripts/codes.
func (c *Coverage) Require(tb testing.TB, allowed ...AllowedMiss) {
	tb.Helper()
	tb.Cleanup(func() {
		tb.Helper()
		c.mu.Lock()
		partial := c.played < c.scripts
		c.mu.Unlock()
		if partial {
			return
		}
		if tb.Failed() {
			tb.Log("coverage not checked, because the test failed otherwise: fix that first")
			return
		}
		if problems := c.problems(allowed); len(problems) > 0 {
			tb.Errorf("%s\nexpected full coverage, except allowed misses with a reason:\n  %s",
				strings.TrimSuffix(c.Report(), "\n"), strings.Join(problems, "\n  "))
		}
	})
}

// problems returns the reasons why the coverage does not meet the requirement.
func (c *Coverage) problems(allowed []AllowedMiss) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chart == "" {
		return []string{"no chart was played"}
	}
	var stale []string
	excused := map[string]bool{}
	for _, miss := range allowed {
		known, covered := false, false
		for i := range c.items {
			if c.items[i].name == miss.Name {
				known, covered = true, c.items[i].covered
			}
		}
		switch {
		case !known:
			stale = append(stale, "allowed miss is not in this chart: "+miss.Name)
		case miss.Reason == "":
			stale = append(stale, "allowed miss has no reason: "+miss.Name)
		case covered:
			stale = append(stale, "allowed miss is covered: "+miss.Name)
		case excused[miss.Name]:
			stale = append(stale, "allowed miss is listed twice: "+miss.Name)
		}
		excused[miss.Name] = true
	}
	var problems []string
	for i := range c.items {
		if !c.items[i].covered && !excused[c.items[i].name] {
			problems = append(problems, "not covered: "+c.items[i].name)
		}
	}
	return append(problems, stale...)
}

// begin assigns a chart to the coverage. All charts must have the same states and transitions.
func (c *Coverage) begin(chart string, states []statechart.StateInfo, transitions []statechart.TransitionInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chart != "" {
		same := chart == c.chart && reflect.DeepEqual(states, c.states) && len(transitions) == len(c.items)-c.taken
		for i := 0; same && i < len(transitions); i++ {
			same = reflect.DeepEqual(transitions[i], c.items[c.taken+i].info)
		}
		if !same {
			return fmt.Errorf("expected one chart for one Coverage, %s, got %s with other states or transitions", c.chart, chart)
		}
		return nil
	}
	c.chart, c.states, c.entered = chart, states, map[string]int{}
	for _, state := range states {
		if state.Path == "" || state.Type == statechart.ShallowHistory || state.Type == statechart.DeepHistory {
			continue
		}
		c.entered[state.Path] = len(c.items)
		c.items = append(c.items, item{name: "state " + state.Path})
	}
	c.taken = len(c.items)
	times := map[string]int{}
	for _, transition := range transitions {
		name := transitionName(transition)
		if times[name]++; times[name] > 1 {
			name = fmt.Sprintf("%s #%d", name, times[name])
		}
		c.items = append(c.items, item{name: name, transition: true, info: transition})
	}
	return nil
}

// add counts microsteps that were not rolled back.
func (c *Coverage) add(microsteps []statechart.Microstep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, microstep := range microsteps {
		for _, path := range microstep.Entered {
			if i, counts := c.entered[path]; counts {
				c.items[i].covered = true
			}
		}
		for _, index := range microstep.Transitions {
			c.items[c.taken+index].covered = true
		}
	}
}

// plan counts planned scripts.
func (c *Coverage) plan(scripts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts += scripts
}

// finish counts a completed script.
func (c *Coverage) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.played++
}

func transitionName(t statechart.TransitionInfo) string {
	name := t.Source
	if name == "" {
		name = "(chart)"
	}
	name += " " + t.Trigger
	if t.Guard != "" {
		name += " [" + t.Guard + "]"
	}
	if len(t.Targets) > 0 {
		name += " -> " + strings.Join(t.Targets, ", ")
	}
	return name
}

// startCoverage gives the player a stepper that records microsteps, and starts its coverage.
func (p *Player[C]) startCoverage() error {
	p.stepper = p.chart.Stepper()
	p.stepper.OnMicrostep = func(m statechart.Microstep) { p.microsteps = append(p.microsteps, m) }
	if p.config.Coverage == nil {
		return nil
	}
	return p.config.Coverage.begin(fmt.Sprintf("%s version %d", p.chart.ID(), p.chart.Version()), p.chart.Describe().States, p.chart.Transitions())
}

func (p *Player[C]) start() (statechart.Step[C], error) {
	p.microsteps = nil
	next, effects, err := p.stepper.Start(statechart.Start{Instance: p.config.Instance, At: p.now, Input: p.config.Input})
	return statechart.Step[C]{Next: next, Effects: effects, Handled: err == nil}, err
}

// stepOnce takes one macrostep and does not change the player's snapshot.
func (p *Player[C]) stepOnce(event statechart.Event) (statechart.Step[C], error) {
	p.microsteps = nil
	next := p.snapshot
	effects, handled, err := p.stepper.Step(&next, &event)
	return statechart.Step[C]{Next: next, Effects: effects, Handled: handled}, err
}

// cover counts the states and transitions of the last macrostep.
func (p *Player[C]) cover() {
	if p.config.Coverage != nil {
		p.config.Coverage.add(p.microsteps)
	}
}
