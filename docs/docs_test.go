// Package docs_test does what the pages tell their readers to do: it runs the commands of README.md and of the pages of
// this folder in their order, each page in a temporary folder of its own, and compares what they print with what the
// page says. The pages of a guide share a folder. It needs no network: what only AWS or a download could answer is marked in the page, with the
// reason.
//
// A page says above a block, in a comment that readers do not see, what the block is:
//
//	<!-- run -->           commands ("$ ") and what they print; without output, nothing is compared
//	<!-- run: again -->    each is repeated until it prints what stands below it: what is asked for is on its way
//	<!-- run: exits 4 -->  all end with that code
//	<!-- run: stays -->    the last one goes on in a terminal of its own, until another is started or the page ends
//	<!-- printed -->       what the terminal of the command that stays shows next, among other lines
//	<!-- file: PATH -->    a file of the page's folder, which the block is the whole of
//	<!-- apply: PATH -->   a diff for a file that is there
//	<!-- not run: WHY -->  commands that cannot run here
//
// A line "..." stands for any lines. Times, IDs, hashes and the ports of this machine are compared by their patterns. An ID
// that a command has printed may be typed again as the page shows it.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository.
const root = ".."

// stacksFlag has the pages run that synthesize a stack, in the place of the others: they compile CDK, which make infra does anyway.
var stacksFlag = flag.Bool("docs.stacks", false, "run the pages that synthesize a stack of their own instead of the others (make infra does)")

// awsFlag has the pages use another aws CLI than the stand-in of this package, such as the one that is installed.
var awsFlag = flag.String("docs.aws", "", "run this aws CLI instead of the stand-in")

func TestMain(m *testing.M) {
	if tool := os.Getenv(standInVariable); tool != "" {
		os.Exit(standIn(tool, os.Args[1:]))
	}
	flag.Parse()
	folder, err := os.MkdirTemp("", "settle-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.folder = folder
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// notRun is how many commands of each page are marked as not run. One more has to be decided on here.
var notRun = map[string]int{
	"README.md":                   2,
	"docs/awslocal-behaviours.md": 4,
	"docs/awslocal.md":            10,
	"docs/define-a-machine.md":    1,
	"docs/backups.md":             11,
	"docs/deploy-a-machine.md":    2,
	"docs/deploy.md":              15,
	"docs/getting-started.md":     1,
	"docs/migration.md":           1,
	"docs/metrics.md":             1,
	"docs/operations.md":          6,
	"docs/parked-events.md":       1,
	"docs/send-events.md":         1,
	"docs/snapshots.md":           1,
}

// elsewhere are the pages whose commands need no marks, as other tests hold them to what there is: those of cmd/settle
// each command and each flag of the reference.
var elsewhere = []string{"docs/cli.md", "docs/cli-instances.md", "docs/cli-repair.md"}

// guide is a guide of several pages: its reader follows them in this order, in one folder.
var guide = []string{"docs/define-a-machine.md", "docs/test-a-machine.md", "docs/host-a-machine.md", "docs/deploy-a-machine.md"}

// withStacks are the pages that need stacksFlag.
var withStacks = guide

// inClone are the pages whose reader is in a clone of the repository; those of the others have an empty folder.
var inClone = []string{"README.md", "docs/charts.md", "docs/deploy.md", "docs/getting-started.md"}

func TestPagesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		blocks := blocksOf(t, page)
		runs := slices.ContainsFunc(blocks, func(b block) bool { return b.mark == "run" })
		if !runs || slices.Contains(withStacks, page) != *stacksFlag || slices.Index(guide, page) > 0 {
			continue
		}
		if page == guide[0] {
			for _, next := range guide[1:] {
				blocks = append(blocks, blocksOf(t, next)...)
			}
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && page == "docs/deploy.md" {
				t.Skip("compiles every function for Lambda: `make check` runs it")
			}
			s := newSession(t, slices.Contains(inClone, page))
			for _, b := range blocks {
				s.play(t, b)
			}
		})
	}
}

func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		left := 0
		for _, b := range blocksOf(t, page) {
			switch {
			case !b.isShell() && b.mark != "run" && b.mark != "not run":
			case b.mark == "run" && b.isShell():
			case b.mark == "" && slices.Contains(elsewhere, page):
			case b.mark == "not run" && b.argument != "" && b.isShell():
				left += len(commandsOf(b))
			default:
				t.Errorf("%s:%d: expected <!-- run --> or <!-- not run: the reason --> above the commands, got %q", page, b.line, b.mark)
			}
		}
		if want := notRun[page]; left != want {
			t.Errorf("%s: expected %d commands that are not run, got %d: run them, or count them in notRun", page, want, left)
		}
	}
	for page := range notRun {
		if !slices.Contains(pages(t), page) {
			t.Errorf("notRun names %s, which is not there", page)
		}
	}
}

// pages returns the pages that tell somebody to type something, by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/charts/*.md", "*/README.md", "*/*/README.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
	}
	if len(found) < 10 {
		t.Fatalf("expected more pages, got %v", found)
	}
	return found
}

// block is a fenced block of a page.
type block struct {
	page string
	line int // of the opening fence
	// mark and argument are those of the comment above it; empty if there is none.
	mark, argument string
	language       string
	text           string
}

var (
	markPattern  = regexp.MustCompile(`^<!-- (run|not run|printed|file|apply)(?:: (.+))? -->$`)
	fencePattern = regexp.MustCompile("^```(\\w*)$")
)

func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		mark := markPattern.FindStringSubmatch(lines[i])
		if mark != nil && !fencePattern.MatchString(lines[min(i+1, len(lines)-1)]) {
			t.Fatalf("%s:%d: expected a block below the mark", page, i+1)
		}
		if mark != nil {
			i++
		}
		fence := fencePattern.FindStringSubmatch(lines[i])
		if fence == nil {
			continue
		}
		b := block{page: page, line: i + 1, language: fence[1]}
		if mark != nil {
			b.mark, b.argument = mark[1], mark[2]
		}
		end := slices.Index(lines[i+1:], "```")
		if end < 0 {
			t.Fatalf("%s:%d: expected an end of the block", page, i+1)
		}
		b.text = strings.Join(lines[i+1:i+1+end], "\n") + "\n"
		blocks = append(blocks, b)
		i += 1 + end
	}
	return blocks
}

func (b block) isShell() bool {
	return b.language == "console" || b.language == "sh" || b.language == "bash"
}

// command is what a reader types, and what is printed then.
type command struct {
	text string
	want []string
}

// commandsOf splits a block into commands: in a console those behind "$ ", else each line. One goes on over lines that
// end with a backslash or within quotes, and to the end of a loop.
func commandsOf(b block) []command {
	var commands []command
	open := false
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		typed, isPrompt := strings.CutPrefix(line, "$ ")
		switch {
		case open:
			commands[len(commands)-1].text += "\n" + line
		case isPrompt || b.language != "console" && line != "":
			commands = append(commands, command{text: typed})
		case len(commands) > 0:
			last := &commands[len(commands)-1]
			last.want = append(last.want, line)
			continue
		default:
			continue
		}
		text := commands[len(commands)-1].text
		open = strings.HasSuffix(text, `\`) || strings.Count(text, "'")%2 == 1 || strings.Contains(text, "; do") && !strings.Contains(text, "\ndone") && !strings.Contains(text, "\n  done")
	}
	return commands
}
