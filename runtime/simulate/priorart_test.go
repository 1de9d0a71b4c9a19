package simulate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const priorArt = "../../docs/prior-art.md"

// The parts of the last cell of a row: a package with a test of it or with a file of its scripts, and a case.
var (
	sectionPackage = regexp.MustCompile(`\]\(\.\./(machines/\w+)\)`)
	namedTest      = regexp.MustCompile("([\\w/]+) `(\\w+)`")
	namedScript    = regexp.MustCompile(`(?:P |, )(testdata/\w+)`)
	namedCase      = regexp.MustCompile(`"([^"]+)"`)
)

// TestPriorArtNamesTestsThatExist reads the last cell of every row of the document.
func TestPriorArtNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(priorArt)
	if err != nil {
		t.Fatal(err)
	}
	machine, rows := "", 0
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "## ") {
			found := sectionPackage.FindStringSubmatch(line)
			if found == nil {
				t.Fatalf("line %d: expected a link to the machine's package, got %s", i+1, line)
			}
			machine = found[1]
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "behaviour" {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Errorf("line %d: expected behaviour, there, here and test, got %d cells: %s", i+1, len(cells), line)
			continue
		}
		if problem := missingOf(t, cells[3], machine); problem != "" {
			t.Errorf("line %d: %s in %s", i+1, problem, cells[3])
		}
	}
	if rows < 80 {
		t.Errorf("expected at least 80 rows, got %d", rows)
	}
}

// missingOf returns what the cell names and does not exist, empty if all does.
func missingOf(t *testing.T, cell, machine string) string {
	t.Helper()
	tests, scripts := namedTest.FindAllStringSubmatch(cell, -1), namedScript.FindAllStringSubmatch(cell, -1)
	if len(tests)+len(scripts) == 0 || strings.Count(cell, "`") != 2*len(tests) {
		return "expected tests or scripts, each with its package"
	}
	code := ""
	for _, test := range tests {
		code = testCode(t, test[1], machine)
		if !strings.Contains(code, "\nfunc Test"+test[2]+"(t *testing.T) {\n") {
			return "no test Test" + test[2]
		}
	}
	for _, script := range scripts {
		if _, err := os.Stat(filepath.Join("../..", machine, script[1])); err != nil {
			return err.Error()
		}
	}
	for _, c := range namedCase.FindAllStringSubmatch(cell, -1) {
		if !strings.Contains(code, `"`+c[1]+`"`) {
			return "no case " + c[1]
		}
	}
	return ""
}

// testCode returns the text of all test files of a package, as the document names it.
func testCode(t *testing.T, named, machine string) string {
	t.Helper()
	folder := "runtime/" + named
	switch root, _, _ := strings.Cut(named, "/"); {
	case named == "S":
		folder = "runtime/simulate"
	case named == "P":
		folder = machine
	case root == "functions" || root == "cmd" || root == "infra" || root == "machines":
		folder = named
	}
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	return code.String()
}
