package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// grammar returns the commands, such as "list" and "dlq list", with their flags. A group with a default command is also a
// command.
func (u user) grammar() map[string][]string {
	u.t.Helper()
	all := map[string][]string{}
	for _, name := range u.completions() {
		if name == "clock" { // "settle clock" without a subcommand means settle clock show.
			all[name] = u.completions(name, "show", "--")
		}
		if below := u.completions(name, ""); name == "dlq" || name == "bulk" || name == "clock" {
			for _, sub := range below {
				all[name+" "+sub] = u.completions(name, sub, "--")
			}
		} else {
			all[name] = u.completions(name, "--")
		}
	}
	return all
}

// called returns the command that a line calls, and its flags. It returns "" if the line calls none.
func called(line string, grammar map[string][]string) (name string, flags []string) {
	_, line, ok := strings.Cut(" "+line, " settle ")
	if !ok {
		return "", nil
	}
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " # ")
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", nil
	}
	name = words[0]
	if len(words) > 1 && grammar[name+" "+words[1]] != nil {
		name += " " + words[1]
	}
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "--") {
			flags = append(flags, flag)
		}
	}
	return name, flags
}

// referencePages are the pages in docs with a section for each command.
var referencePages = []string{"cli.md", "cli-instances.md", "cli-repair.md", "cli-forget.md", "cli-recovery.md", "benchmark.md", "replay.md"}

// reference returns the text of the pages with a section for each command.
func reference(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, page := range referencePages {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteString("\n## " + page + "\n") // This heading ends the last section of the page.
	}
	return all.String()
}

func TestCLIDocumentsAllCommandsAndOnlyTheirFlags(t *testing.T) {
	t.Parallel()
	text := reference(t)
	grammar := user{t: t}.grammar()
	if len(grammar) < 19 {
		t.Fatalf("expected all commands, got %v", grammar)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(text, "\n## settle ") {
		name, rest, _ := strings.Cut(section, "\n")
		sections[name], _, _ = strings.Cut(rest, "\n## ")
	}
	inText := regexp.MustCompile("`(--[a-z-]+)`")
	for name, flags := range grammar {
		section, ok := sections[name]
		if group, _, _ := strings.Cut(name, " "); !ok && (group == "bulk" || group == "clock") { // All commands of the group share a section.
			section, ok = sections[group]
			name = group
		}
		if !ok || !strings.Contains(section, "$ settle "+name) && !strings.Contains(section, "| settle "+name) {
			t.Errorf("expected a section and an example of settle %s in %v", name, referencePages)
		}
		for _, found := range inText.FindAllStringSubmatch(section, -1) {
			if !slices.Contains(flags, found[1]) {
				t.Errorf("the pages: settle %s has no flag %s, but %v", name, found[1], flags)
			}
		}
	}
	for line := range strings.Lines(text) {
		if prompt, ok := strings.CutPrefix(line, "$ "); ok {
			checkCall(t, "the pages", prompt, grammar)
		}
	}
}

func TestHelpHasAnExampleOfEachCommand(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	grammar := u.grammar()
	for name := range grammar {
		_, detail, _ := strings.Cut(u.must(append(strings.Fields(name), "--help")...), "\n")
		examples := 0
		for line := range strings.Lines(detail) {
			if !strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "     ") { // An example has another indent.
				continue
			}
			if of, _ := called(line, grammar); of == name {
				examples++
			}
			checkCall(t, "the help of "+name, line, grammar)
		}
		if examples == 0 {
			t.Errorf("expected an example in the help of %s, got:\n%s", name, detail)
		}
	}
}

// checkCall checks that the command and the flags of a line exist.
func checkCall(t *testing.T, where, line string, grammar map[string][]string) {
	t.Helper()
	name, flags := called(strings.TrimSpace(line), grammar)
	if name == "" {
		return
	}
	known, ok := grammar[name]
	if !ok {
		t.Errorf("%s: there is no command settle %s: %s", where, name, line)
		return
	}
	for _, flag := range flags {
		if !slices.Contains(known, flag) {
			t.Errorf("%s: settle %s has no flag %s: %s", where, name, flag, line)
		}
	}
	for _, given := range givenVariable.FindAllStringSubmatch(line, -1) {
		if !variables(t)[given[1]] {
			t.Errorf("%s: the consumer reads no variable %s: %s", where, given[1], line)
		}
	}
}

var (
	givenVariable  = regexp.MustCompile(`--consumer-env[ =](\w+)=`)
	variablesNamed = regexp.MustCompile(`= "(SETTLE_\w+)"`)
)

// variables returns the environment variables that functions read. It finds them in the Go constants that name them.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	read := map[string]bool{}
	for _, path := range []string{"../../runtime/host/settings.go", "../../machines/samples/settings.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range variablesNamed.FindAllStringSubmatch(string(source), -1) {
			read[named[1]] = true
		}
	}
	return read
}
