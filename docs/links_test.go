package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// needed are what sections wait for that are marked <!-- needs: NAME -->, by the folders that come with it.
var needed = map[string]string{
	"infra":   "infra/cdk",
	"host":    "functions/host",
	"cli":     "cmd/settle/command",
	"metrics": "functions/internal/emf",
}

var needsPattern = regexp.MustCompile(`(?m)^<!-- needs: (.+) -->$`)

func TestSectionsThatNeedSomethingAreCheckedOnceItIsThere(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text := read(t, page)
		for _, found := range needsPattern.FindAllStringSubmatchIndex(text, -1) {
			name, line := text[found[2]:found[3]], 1+strings.Count(text[:found[0]], "\n")
			folder, known := needed[name]
			if !known {
				t.Errorf("%s:%d: expected one of needed, got %q", page, line, name)
				continue
			}
			if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
				t.Errorf("%s:%d: the section needs %s, and %s is there: check what it says, and take the mark away", page, line, name, folder)
			}
		}
	}
}

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
				t.Errorf("%s: the link %s leads to no heading of %s", page, found[1], to)
			}
		}
	}
	if count < 100 {
		t.Errorf("expected the pages to have hundreds of links, found %d", count)
	}
}

// anchors returns what headings of a page are linked by, as GitHub makes it of them.
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

// settingPattern finds the constants that name environment variables.
var settingPattern = regexp.MustCompile(`= "((?:SETTLE|OTEL)_[A-Z_]+)"`)

func TestTheOperationsPageNamesEverySetting(t *testing.T) {
	t.Parallel()
	const page = "docs/operations.md"
	text, count := read(t, page), 0
	err := filepath.WalkDir(filepath.Join(root, "functions", "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range settingPattern.FindAllStringSubmatch(string(source), -1) {
			count++
			if !strings.Contains(text, "`"+found[1]+"`") {
				t.Errorf("%s does not name %s, which %s reads", page, found[1], path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 20 {
		t.Errorf("expected to find 20 settings or more, found %d", count)
	}
}
