package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/awslocal-behaviours.md")

const document = "../../../docs/awslocal-behaviours.md"

// TestDocument fails unless docs/awslocal-behaviours.md lists the tested behaviours and differences.
// Each table is between <!-- begin <what> --> and <!-- end <what> -->.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	must(t, "reading", err)
	before := string(text)
	after := before
	for _, s := range services {
		after = replaceTable(t, after, s.name+" behaviours", behaviourTable(s))
	}
	after = replaceTable(t, after, "differences", differenceTable())
	if after == before {
		return
	}
	if !*update {
		t.Fatal("the tables of docs/awslocal-behaviours.md are out of date: run go test -run TestDocument -args -update")
	}
	must(t, "writing", os.WriteFile(document, []byte(after), 0o644))
}

func replaceTable(t *testing.T, text, what, table string) string {
	t.Helper()
	begin, end := "<!-- begin "+what+" -->\n", "<!-- end "+what+" -->\n"
	head, rest, found := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/awslocal-behaviours.md has no %s...%s", begin, end)
	}
	return head + begin + table + end + tail
}

func behaviourTable(s service) string {
	table := "| behaviour | promise |\n|---|---|\n"
	for _, b := range s.behaviours {
		table += fmt.Sprintf("| `%s` | %s |\n", b.name, b.promise)
	}
	return table
}

func differenceTable() string {
	table := "| emulator | behaviour | the emulator's behaviour | AWS document |\n|---|---|---|---|\n"
	for _, d := range differences {
		does := d.does
		if d.byChance {
			does = "sometimes, " + does
		}
		table += fmt.Sprintf("| %s | `%s` | %s | %s |\n", d.emulator, d.behaviour, does, d.decides)
	}
	return table
}

// TestTables checks that the tables are consistent.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		seen := map[string]bool{}
		for _, b := range s.behaviours {
			if seen[b.name] || b.promise == "" || b.test == nil {
				t.Errorf("%s/%s: expected a unique name, a promise and a test", s.name, b.name)
			}
			seen[b.name] = true
		}
	}
	for _, d := range differences {
		i := slices.IndexFunc(behavioursOf(d.service), func(b behaviour) bool { return b.name == d.behaviour })
		if i < 0 || behavioursOf(d.service)[i].takes > *patience {
			t.Errorf("%s: got a difference in %s/%s, which is not cross-checked", d.emulator, d.service, d.behaviour)
		}
	}
}
