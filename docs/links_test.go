package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codePattern    = regexp.MustCompile("(?ms)^```.*?^```$")
	inlinePattern  = regexp.MustCompile("`[^`\n]+`")
)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	count := 0
	for _, page := range pages(t) {
		prose := inlinePattern.ReplaceAllString(codePattern.ReplaceAllString(read(t, page), ""), "")
		for _, found := range linkPattern.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			count++
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(to, ".md") && !anchors(t, to)[anchor] {
				t.Errorf("%s: the link %s names no heading of %s", page, found[1], to)
			}
		}
	}
	if count < 100 {
		t.Errorf("expected the pages to have hundreds of links, found %d", count)
	}
}

// functionPattern finds links that name a function, such as [`(*Loop).turn`](../runtime/durable/turn.go).
var functionPattern = regexp.MustCompile("\\[`(?:\\(\\*(\\w+)\\)\\.)?(\\w+)`\\]\\(\\.\\./([\\w/]+\\.go)\\)")

func TestLinksToFunctionsNameTheFileThatHasThem(t *testing.T) {
	t.Parallel()
	count := 0
	for _, page := range pages(t) {
		for _, found := range functionPattern.FindAllStringSubmatch(read(t, page), -1) {
			receiver, name, file := found[1], found[2], found[3]
			declared := `(?m)^(?:func|type) ` + name + `\b`
			if receiver != "" {
				declared = `(?m)^func \(\w+ \*?` + receiver + `(?:\[\w+\])?\) ` + name + `\(`
			}
			if !regexp.MustCompile(declared).MatchString(read(t, file)) {
				t.Errorf("%s: %s declares no %s", page, file, found[0])
			}
			count++
		}
	}
	if count < 10 {
		t.Errorf("expected the pages to link to ten functions or more, found %d", count)
	}
}

// anchors returns the anchors that GitHub generates for the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, heading := range headingPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(read(t, page), ""), -1) {
		text := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(heading[1], "")
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(text), "")
		found[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return found
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheReadmeLeadsToEveryPage requires a link to each page in README.md, or in docs/charts.md for the pages of the reference.
func TestTheReadmeLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		index, target := "README.md", strings.TrimSuffix(page, "/README.md") // A link to a folder shows its README.md.
		if path.Dir(page) == "docs/charts" {
			index, target = "docs/charts.md", strings.TrimPrefix(page, "docs/")
		}
		if page != "README.md" && !strings.Contains(read(t, index), "]("+target+")") {
			t.Errorf("%s has no link to %s", index, page)
		}
	}
}
