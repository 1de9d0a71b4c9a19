// Package docs_test follows the pages like a reader: it runs the commands of README.md and of the pages in this folder
// in order, and compares their output with the page. Each page has its own temporary folder, and the pages of a guide
// share one. The tests need no network. Commands that need AWS or a download are marked in the page, with the reason.
//
// An HTML comment above a block describes the block. Readers of the page do not see it:
//
//	<!-- run -->           commands ("$ ") and their output; without output, nothing is compared
//	<!-- run: again -->    each command is repeated until it prints the output below it, which may take a while
//	<!-- run: exits 4 -->  all commands end with that code
//	<!-- run: stays -->    the last command keeps running in its own terminal, until the next such command or the end of the page
//	<!-- printed -->       the next output in the terminal of the running command, among other lines
//	<!-- file: PATH -->    the content of a file in the page's folder
//	<!-- apply: PATH -->   a diff for an existing file
//	<!-- not run: WHY -->  commands that cannot run here
//
// A line "..." stands for any lines. Times, IDs, hashes and the ports of this machine are compared
// by pattern. If a later command contains such an ID, the test types the printed one.
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

// stacksFlag runs only the pages that synthesize a stack. They compile CDK. make infra sets this flag,
// because it compiles CDK anyway.
var stacksFlag = flag.Bool("docs.stacks", false, "run the pages that synthesize a stack of their own instead of the others (make infra does)")

// awsFlag replaces the stand-in of this package with another aws CLI, such as the installed one.
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

// notRun counts the commands of each page that are marked as not run. If you mark a command, increment the count of its page.
var notRun = map[string]int{
	"README.md":                   2,
	"docs/awslocal-behaviours.md": 4,
	"docs/awslocal.md":            10,
	"docs/console.md":             2,
	"docs/define-a-machine.md":    1,
	"docs/backups.md":             11,
	"docs/deploy-a-machine.md":    3,
	"docs/deploy.md":              16,
	"docs/charts/limits.md":       1,
	"docs/floods.md":              2,
	"docs/getting-started.md":     1,
	"docs/inspector.md":           3,
	"docs/migration.md":           4,
	"docs/metrics.md":             1,
	"docs/operations.md":          6,
	"docs/parked-events.md":       1,
	"docs/recovery.md":            22,
	"docs/rename-or-delete.md":    4,
	"docs/replay.md":              9,
	"docs/deploy-lanes.md":        1,
	"docs/lanes.md":               2,
	"docs/scaling.md":             5,
	"docs/publish-events.md":      2,
	"docs/security.md":            6,
	"docs/send-events.md":         1,
	"docs/snapshots.md":           1,
	"docs/xstate-front-end.md":    2,
	"docs/xstate-durable.md":      4,
}

// elsewhere lists the pages whose commands need no marks. The tests of cmd/settle compare each command and flag of the
// reference with the code.
var elsewhere = []string{"docs/cli.md", "docs/cli-instances.md", "docs/cli-repair.md", "docs/cli-forget.md", "docs/cli-recovery.md", "docs/benchmark.md"}

// guide lists the pages of a guide. Its reader follows them in this order, in one folder.
var guide = []string{"docs/define-a-machine.md", "docs/test-a-machine.md", "docs/host-a-machine.md", "docs/accept-a-webhook.md", "docs/deploy-a-machine.md"}

// withStacks lists the pages that need stacksFlag.
var withStacks = guide

// inClone lists the pages whose reader is in a clone of the repository. The other pages start in an empty folder.
var inClone = []string{"README.md", "docs/charts.md", "docs/deploy.md", "docs/getting-started.md", "docs/rename-or-delete.md", "docs/replay.md"}

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
			t.Errorf("notRun names %s, which does not exist", page)
		}
	}
}

// pages returns the paths of all pages from the root.
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
	// mark and argument come from the comment above the block. Without a comment, both are empty.
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
	var blocks []block
	lines := strings.Split(read(t, page), "\n")
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

// command is a command that a reader types, with its expected output.
type command struct {
	text string
	want []string
}

// commandsOf splits a block into commands. In a console block, the lines with "$ " are commands; in other blocks, all
// lines are. A command continues on the next line after a backslash, within quotes, and until the end of a loop.
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
