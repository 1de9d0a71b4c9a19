package explore_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// script is the text form of a schedule: a scenario, the number of things that may happen while a process waits, and
// one line per step. Indented lines below a step are its decisions other than the default. The last line names the
// violation that the search finds at the end of the schedule or in a continuation without faults. If it finds none, the
// line is "finds nothing".
//
//	scenario plain
//	nested 1
//	deliver x/a 1
//	  Commit x/a loses its answer
//	finds nothing
type script struct {
	scenario string
	nested   int
	steps    []step
	finds    string
}

// foundNothing is the last word in the script of a fixed defect.
const foundNothing = "nothing"

func scriptOf(s scope, v violation) *script {
	return &script{s.scenario.name, s.nested, v.steps, v.kind}
}

// String returns the text of the script.
func (s *script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s\nnested %d\n", s.scenario, s.nested)
	for _, step := range s.steps {
		fmt.Fprintln(&b, step.action)
		for _, decision := range step.decisions {
			fmt.Fprintln(&b, " ", decision)
		}
	}
	fmt.Fprintln(&b, "finds", s.finds)
	return b.String()
}

// save writes the script into testdata if -save is set.
func (s *script) save(t *testing.T) {
	t.Helper()
	if !*saveScripts {
		return
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.scenario+"--"+s.finds))
	if err := os.WriteFile(filepath.Join("testdata", name+".script"), []byte(s.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readScripts returns the scripts in testdata by file name.
func readScripts(t *testing.T) map[string]*script {
	t.Helper()
	files, err := filepath.Glob("testdata/*.script")
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]*script{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || word == "#":
			case word == "scenario":
				s.scenario = rest
			case word == "nested":
				if s.nested, err = strconv.Atoi(rest); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			case word == "finds":
				s.finds = rest
			case word != "":
				s.steps = append(s.steps, step{action: line})
			default:
				last := &s.steps[len(s.steps)-1]
				last.decisions = append(last.decisions, strings.TrimPrefix(line, "  "))
			}
		}
		scripts[file] = s
	}
	return scripts
}

// knownViolations returns the violations that scripts name, each with its scenario.
func knownViolations(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, s := range readScripts(t) {
		known[s.scenario+": "+s.finds] = true
	}
	return known
}

// replay plays the schedule and then searches all continuations without faults. It returns the kinds of violations, and
// the steps that it skipped because the runtime has changed since.
func (s *script) replay() (kinds, skipped []string) {
	sc := scope{scenario: scenarioNamed(s.scenario), faults: 9, pauses: 9, nested: s.nested}
	x := newSearch(sc)
	w := sc.scenario.begin(sc)
	for _, step := range s.steps {
		i := slices.IndexFunc(x.actions(w, 0), func(a action) bool { return a.name == step.action })
		if i < 0 {
			skipped = append(skipped, step.action)
			continue
		}
		d := &decisions{isScript: true, script: step.decisions}
		x.actions(w, 0)[i].do(w, d)
		skipped = append(skipped, d.script...)
	}
	w.left.Faults, w.left.Pauses = 0, 0
	rest := newSearch(scope{scenario: sc.scenario, nested: s.nested})
	rest.from(w)
	return slices.Sorted(maps.Keys(rest.violations)), skipped
}

// TestScripts replays the schedules in testdata and compares the violations with the scripts. -update rewrites the
// scripts.
func TestScripts(t *testing.T) {
	t.Parallel()
	for file, s := range readScripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kinds, skipped := s.replay()
				got := foundNothing
				if slices.Contains(kinds, s.finds) {
					got = s.finds
				} else if len(kinds) > 0 {
					got = kinds[0]
				}
				if got == s.finds && (got == foundNothing || len(skipped) == 0) {
					return
				}
				t.Errorf("the schedule finds %q, want %q; all violations: %q; skipped steps: %q", got, s.finds, kinds, skipped)
				if s.finds = got; *updateScripts {
					if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// The flags of the scripts. The flags of the search are in scope_test.go.
var (
	saveScripts   = flag.Bool("save", false, "save the schedule of each violation in testdata")
	updateScripts = flag.Bool("update", false, "rewrite the scripts in testdata with the violations found now")
)
