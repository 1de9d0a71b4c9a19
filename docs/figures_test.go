package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	dollars = regexp.MustCompile(`\$\d+\.\d\d`)
	// billed finds what a million events cost in the tables of docs/cost.md, which tests of runtime/simulate hold to what is counted.
	billed = regexp.MustCompile(`(?m)^\| (.*?) \|.*\*\*(\$\d+\.\d\d)\*\* \|$`)
)

// TestPagesTellTheFiguresOfTheCostPage looks at what other pages say of a million events. They begin with what is deployed.
func TestPagesTellTheFiguresOfTheCostPage(t *testing.T) {
	t.Parallel()
	bills, deployed := map[string]bool{}, ""
	for _, row := range billed.FindAllStringSubmatch(read(t, "docs/cost.md"), -1) {
		bills[row[2]] = true
		if row[1] == "as deployed" {
			deployed = row[2]
		}
	}
	if len(bills) < 10 || deployed == "" {
		t.Fatalf("expected ten bills or more in docs/cost.md, one of them as deployed, got %v", bills)
	}
	for page, heading := range map[string]string{"README.md": "## What does it cost?", "docs/comparison.md": "## AWS Step Functions"} {
		section := sectionOf(t, page, heading)
		told := dollars.FindAllString(section, -1)
		if len(told) == 0 || told[0] != deployed || !strings.Contains(section, "make deploy") {
			t.Errorf("%s: expected %q to begin with what an event costs as it is deployed, %s, got %v", page, heading, deployed, told)
		}
		for _, figure := range told {
			if !bills[figure] {
				t.Errorf("%s says %s, which docs/cost.md does not", page, figure)
			}
		}
	}
}
