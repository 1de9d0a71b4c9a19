package explore_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutantsFlag = flag.String("mutants", "", "a regular expression: TestMutants builds the loop with each defect whose name it matches")

// mutant is a deliberate defect: a passage of a file, its replacement, and a scenario. With the defect, the search
// of this scenario must find a new kind of violation.
type mutant struct {
	name, scenario, finds string
	// faults is how many faults the search may use; zero means 1. `pauses` has the same meaning as in scope.
	faults, pauses int
	file, old, new string
}

// TestMutants builds the loop, or the ports, with each defect, and expects the search to find the defect. It prints the
// table of docs/search.md.
func TestMutants(t *testing.T) {
	t.Parallel()
	if *mutantsFlag == "" {
		t.Skip("run by make explore-mutants")
	}
	chosen, err := regexp.Compile(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| defect | scenario | violation | faults |\n|---|---|---|---|\n")
	for _, m := range mutants {
		if !chosen.MatchString(m.name) {
			continue
		}
		output, err := m.explore(t, t.TempDir())
		found := regexp.MustCompile(regexp.QuoteMeta(m.scenario+": "+m.finds) + `: .*\(faults: (\d+);.*`).FindStringSubmatch(output)
		if found == nil {
			t.Errorf("%s: expected %q in the scenario %s, got: %v\n%.2000s", m.name, m.finds, m.scenario, err, output)
			continue
		}
		t.Logf("%s: %.200s", m.name, found[0])
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", m.name, m.scenario, m.finds, found[1])
	}
	t.Log("\n" + table.String())
}

// TestTheTextsOfMutantsAreThere checks that the files still have the texts that "make explore-mutants" replaces.
func TestTheTextsOfMutantsAreThere(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		if _, _, err := m.source(); err != nil {
			t.Error(err)
		}
	}
}

// source returns the path and the unchanged text of the file that gets the defect.
func (m *mutant) source() (path, text string, err error) {
	if path, err = filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file))); err != nil {
		return "", "", err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(body), m.old); n != 1 {
		return "", "", fmt.Errorf("%s: expected the text once in %s, got it %d times:\n%s", m.name, m.file, n, m.old)
	}
	return path, string(body), nil
}

// explore runs the search of the mutant's scenario with the defect.
func (m *mutant) explore(t *testing.T, folder string) (output string, err error) {
	t.Helper()
	path, source, err := m.source()
	if err != nil {
		t.Fatal(err)
	}
	broken, overlay, binary := filepath.Join(folder, "broken.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, "explore.test")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{broken: strings.Replace(source, m.old, m.new, 1), overlay: string(replaced)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		return string(output), fmt.Errorf("building: %w", err)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run", "^TestExplore$", "-scenario="+m.scenario, fmt.Sprintf("-faults=%d", cmp.Or(m.faults, 1)), fmt.Sprintf("-pauses=%d", m.pauses))
	got, err := run.CombinedOutput()
	return string(got), err
}
