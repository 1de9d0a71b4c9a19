package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	dollars = regexp.MustCompile(`\$\d+\.\d\d`)
	// billed finds the costs of a million events in the tables of docs/cost.md. Tests of runtime/simulate check these tables.
	billed = regexp.MustCompile(`(?m)^\| (.*?) \|.*\*\*(\$\d+\.\d\d)\*\* \|$`)
)

// TestPagesTellTheFiguresOfTheCostPage checks the costs of a million events on other pages. The first cost in the
// section of each page must be the cost as deployed.
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
			t.Errorf("%s: expected the first figure of %q to be the cost as deployed, %s, got %v", page, heading, deployed, told)
		}
		for _, figure := range told {
			if !bills[figure] {
				t.Errorf("%s has %s, which docs/cost.md does not have", page, figure)
			}
		}
	}
}

// floodRow finds the daily cost of a flood with one kind of request on one open route. A test of
// runtime/simulate computes the table.
var floodRow = regexp.MustCompile(`(?m)^\| .* \| \*\*\$\d+\.\d\d\*\* \| (\$\d+) \| \$\d+ \|$`)

// TestTheSecurityPageTellsTheCostOfAFlood compares the security page with the cheapest and the most expensive requests.
func TestTheSecurityPageTellsTheCostOfAFlood(t *testing.T) {
	t.Parallel()
	rows := floodRow.FindAllStringSubmatch(read(t, "docs/floods.md"), -1)
	if len(rows) < 2 {
		t.Fatalf("expected two kinds of requests or more in docs/floods.md, got %v", rows)
	}
	section := sectionOf(t, "docs/security.md", "## Input from outside")
	want := []string{rows[0][1], rows[len(rows)-1][1]}
	if told := regexp.MustCompile(`\$\d+`).FindAllString(section, -1); !slices.Equal(told, want) {
		t.Errorf("docs/security.md: expected the costs of a day %v, as in docs/floods.md, got %v", want, told)
	}
}
