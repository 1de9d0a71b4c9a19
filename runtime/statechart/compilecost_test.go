package statechart_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// shapes are charts whose size grows with n: n states and 10n transitions, or as many as fit the shape.
var shapes = map[string]func(n int) Def{
	"flat": func(n int) Def {
		d := sized()
		for i := range n {
			event(&d, i)
			d.On = append(d.On, On{Event: fmt.Sprint("E", i), Target: fmt.Sprint(".s", i)})
			s := S{ID: fmt.Sprint("s", i), Tags: settled}
			for k := range 9 {
				s.On = append(s.On, On{Event: fmt.Sprint("E", (i*7+k)%n), Guard: no, Target: fmt.Sprint("s", (i+k)%n), Actions: Do{add(1)}})
			}
			d.States = append(d.States, s)
		}
		return d
	},
	"references by ID": func(n int) Def {
		d := sized()
		for i := range n {
			event(&d, i)
			d.States = append(d.States, S{ID: fmt.Sprint("p", i), Initial: "a", On: []On{{Event: fmt.Sprint("E", i), Target: fmt.Sprintf("#x%d", (i+1)%n)}},
				States: []S{{ID: "a", Tags: settled, On: []On{{Event: fmt.Sprint("E", (i+1)%n), Target: fmt.Sprint("x", i)}}}, {ID: fmt.Sprint("x", i), Tags: settled}}})
		}
		d.Initial = "p0"
		return d
	},
	"nested": func(n int) Def {
		d := sized()
		d.Initial = "s0"
		for i := 0; i < n; i += 30 {
			s := S{ID: "x", Tags: settled}
			for depth := range 28 {
				event(&d, i+depth)
				s = S{ID: "x", Initial: "x", States: []S{s}, On: []On{{Event: "*", Guard: no}, {Event: fmt.Sprint("E", i+depth), Target: fmt.Sprint("#s", (i+30)%n/30*30)}}}
			}
			s.ID = fmt.Sprint("s", i)
			d.States = append(d.States, s)
		}
		return d
	},
	"parallel": func(n int) Def {
		d := sized()
		event(&d, 0)
		d.Initial = "p0"
		for i := range n / 40 {
			p := S{ID: fmt.Sprint("p", i), Type: statechart.Parallel, On: []On{{Event: "E0", Target: fmt.Sprint("p", (i+1)%(n/40))}}}
			for k := range 20 {
				event(&d, i*20+k)
				p.States = append(p.States, S{ID: fmt.Sprint("r", k), Initial: "a", States: []S{
					{ID: "a", Tags: settled, Defer: []string{"*"}, On: []On{{Event: "E*", Guard: no}, {Event: fmt.Sprint("E", i*20+k), Guard: no, Target: "b"}}}, {ID: "b", Tags: settled}}})
				p.States[k].States[0].On[0].Event = fmt.Sprint("E", k)
			}
			d.States = append(d.States, p)
		}
		return d
	},
	"one state": func(n int) Def {
		d := sized()
		s := S{ID: "s0", Tags: settled}
		for i := range n {
			event(&d, i)
			s.Defer = append(s.Defer, fmt.Sprint("E", i))
			s.On = append(s.On, On{Event: fmt.Sprint("E", i), Guard: no}, On{Event: fmt.Sprintf("E%d.*", i), Guard: no})
			s.After = append(s.After, After{ID: fmt.Sprint("t", i), Delay: minutes(i + 1)})
		}
		d.States = []S{s}
		return d
	},
	"always": func(n int) Def {
		d := sized()
		for i := range n {
			d.States = append(d.States, S{ID: fmt.Sprint("s", i), Always: []On{{Target: fmt.Sprint("s", i+1)}}})
		}
		d.States = append(d.States, S{ID: fmt.Sprint("s", n), Tags: settled})
		return d
	},
	"services and children": func(n int) Def {
		d := sized()
		for i := range n {
			event(&d, i)
			next := []On{{Target: fmt.Sprint("w", i)}}
			d.On = append(d.On, On{Event: fmt.Sprint("E", i), Target: fmt.Sprint(".s", i)}, On{Event: fmt.Sprint("done.child.c", i), Actions: Do{statechart.StopChild[trace](fmt.Sprint("c", i))}})
			d.States = append(d.States, S{ID: fmt.Sprint("s", i), Invoke: []Invoke{service("same", next, next)}},
				S{ID: fmt.Sprint("w", i), Tags: settled, Children: []statechart.Child[trace]{{ID: fmt.Sprint("c", i), Machine: "job"}, {ID: "same", Machine: "job"}}})
		}
		return d
	},
}

func sized() Def { return Def{ID: "c", Version: 1, Initial: "s0", Payloads: statechart.Payloads{}} }

func event(d *Def, i int) { d.Payloads[fmt.Sprint("E", i)] = statechart.NoPayload() }

// TestCompilingIsLinear compares the memory that charts allocate while they compile. If compiling sorts or copies a
// list for each state or transition, a chart four times as large allocates more than four times the memory.
//
//nolint:paralleltest // Other tests' allocations would be counted.
func TestCompilingIsLinear(t *testing.T) {
	const size, times, tolerance = 250, 4, 1.3
	for name, shape := range shapes {
		small, large := compiledBytes(t, shape(size)), compiledBytes(t, shape(size*times))
		if large > tolerance*times*small {
			t.Errorf("%s: %d times the size allocates %.1f times the memory, %.0f bytes", name, times, large/small, large)
		}
	}
}

func compiledBytes(t *testing.T, def Def) float64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := statechart.Compile(def)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatalf("%.2000s", err)
	}
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// BenchmarkCompile compares compiling charts with a lower bound: filling a map with an entry for each of their states,
// transitions and events.
func BenchmarkCompile(b *testing.B) {
	for name, shape := range shapes {
		for _, n := range []int{250, 1000} {
			def := shape(n)
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "-"), n), func(b *testing.B) {
				for b.Loop() {
					statechart.Must(def)
				}
			})
		}
	}
	for _, n := range []int{250, 1000} {
		b.Run(fmt.Sprintf("floor/%d", n), func(b *testing.B) {
			for b.Loop() {
				floor := map[string]*On{}
				for i := range 12 * n {
					floor[fmt.Sprint("E", i)] = &On{}
				}
			}
		})
	}
}
