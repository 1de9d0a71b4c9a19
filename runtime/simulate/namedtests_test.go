package simulate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	priorArt   = "../../docs/prior-art.md"
	guarantees = "../../docs/guarantees.md"
)

// These patterns read the headings of docs/prior-art.md and the last cell of each row. The cell names a package with
// one of its tests or with a script file, and perhaps a case.
var (
	sectionPackage = regexp.MustCompile(`\]\(\.\./(machines/\w+)\)`)
	namedTest      = regexp.MustCompile("([\\w/]+) `(\\w+)`")
	namedScript    = regexp.MustCompile(`(?:P |, )(testdata/\w+)`)
	namedCase      = regexp.MustCompile(`"([^"]+)"`)
)

// folderOrTest matches folders of packages and names of tests in docs/guarantees.md.
var folderOrTest = regexp.MustCompile("`(?:((?:runtime|functions|cmd|machines|infra)/[\\w/]+)|(Test\\w+))`")

// TestGuaranteesNameTestsThatExist looks for each test in the package that the line names before the test. Each row of
// the table of guarantees names some tests.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	const rowsMin = 12
	inTable, rows := false, 0
	for i, line := range linesOf(t, guarantees) {
		folder, tests := "", 0
		for _, named := range folderOrTest.FindAllStringSubmatch(line, -1) {
			if named[1] != "" {
				folder = named[1]
				continue
			}
			tests++
			if folder == "" || !hasTest(testCode(t, folder), named[2]) {
				t.Errorf("line %d: no test %s in the package before it, %q", i+1, named[2], folder)
			}
		}
		isHead := strings.HasPrefix(line, "| guarantee |")
		inTable = isHead || inTable && strings.HasPrefix(line, "|")
		if isHead || !inTable || !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		if tests == 0 {
			t.Errorf("line %d: expected the names of tests in %s", i+1, line)
		}
	}
	if rows < rowsMin {
		t.Errorf("expected at least %d guarantees, got %d", rowsMin, rows)
	}
}

// TestPriorArtNamesTestsThatExist looks for the tests in the last cell of every row of the document.
func TestPriorArtNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	machine, rows := "", 0
	for i, line := range linesOf(t, priorArt) {
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

// missingOf returns a name in the cell that does not exist; empty if all exist.
func missingOf(t *testing.T, cell, machine string) string {
	t.Helper()
	tests, scripts := namedTest.FindAllStringSubmatch(cell, -1), namedScript.FindAllStringSubmatch(cell, -1)
	if len(tests)+len(scripts) == 0 || strings.Count(cell, "`") != 2*len(tests) {
		return "expected tests or scripts, each with its package"
	}
	code := ""
	for _, test := range tests {
		code = testCode(t, folderOf(test[1], machine))
		if !hasTest(code, "Test"+test[2]) {
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

// folderOf returns the folder of a package, as docs/prior-art.md names it.
func folderOf(named, machine string) string {
	switch root, _, _ := strings.Cut(named, "/"); {
	case named == "S":
		return "runtime/simulate"
	case named == "P":
		return machine
	case root == "functions" || root == "cmd" || root == "infra" || root == "machines":
		return named
	}
	return "runtime/" + named
}

// linesOf returns the lines of a document.
func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func hasTest(code, name string) bool {
	return strings.Contains(code, "\nfunc "+name+"(t *testing.T) {\n")
}

// testCode returns the text of all test files of a package.
func testCode(t *testing.T, folder string) string {
	t.Helper()
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
