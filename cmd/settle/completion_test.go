package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completions returns the candidates for the last word.
func (u user) completions(words ...string) []string {
	u.t.Helper()
	return strings.Fields(u.must(append([]string{"__complete"}, words...)...))
}

func TestCompletionOffersCommandsFlagsAndMachines(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for _, c := range []struct {
		line string // the words up to the cursor
		want string
	}{
		{"ex|", "export"},
		{"dlq |", "list show redrive drop"},
		{"dlq re|", "redrive"},
		{"list --s|", "--state --status"},
		{"list --status |", "active done stopped any"},
		{"list --status=d|", "--status=done"},
		{"list --status = d|", "done"},
		{"list -o j|", "json"},
		{"list --machine s|", "signup"},
		{"list --machine job --state in|", "in_progress"},
		{"get sig|", "signup/"},
		{"graph sig|", "signup signup/"},
		{"send signup/42 |", "CANCEL CHANGE_ADDRESS RESEND SIGN_UP VERIFY"},
		{"send --local --queue x signup/42 V|", "VERIFY"},
		{"send signup/42 VERIFY --wait |", "settled done failed"},
		{"resume signup/42 --wait f|", "failed"},
		{"simulate sig|", "signup"},
		{"dlq show |", ""},
		{"completion |", "bash zsh fish"},
		{"watch --machine s|", "signup"},
		{"watch --machine job --state in|", "in_progress"},
		{"dev --job-l|", "--job-launches-max"},
		{"nope |", ""},
	} {
		words := strings.Split(strings.TrimSuffix(c.line, "|"), " ")
		if got := strings.Join(u.completions(words...), " "); got != c.want {
			t.Errorf("%s: expected %q, got %q", c.line, c.want, got)
		}
	}
	all := u.completions()
	for _, command := range []string{"send", "demo", "simulate", "version"} {
		if !slices.Contains(all, command) {
			t.Errorf("expected %s among the commands, got %v", command, all)
		}
	}
}

// inBash runs a bash script, with this program in PATH under the name settle, and returns the output.
func inBash(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(program, filepath.Join(folder, "settle")); err != nil {
		t.Fatal(err)
	}
	bash := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", script, "bash"}, args...)...)
	bash.Env = append(os.Environ(), actAsSettle+"=1", "LC_ALL=C", "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	if _, err := bash.StdinPipe(); err != nil { // The process ends with its input. See TestMain.
		t.Fatal(err)
	}
	out, err := bash.CombinedOutput()
	return string(out), err
}

// TestBashCompletes completes lines in bash: it calls the script's function as bash does when the user presses Tab.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "settle.bash")
	if err := os.WriteFile(script, []byte(user{t: t}.must("completion", "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"settle hist":                     "history",
		"settle list --machine sig":       "signup",
		"settle get up":                   "upload/",
		"settle send signup/42 VER":       "VERIFY",
		"settle graph signup --format x":  "xstate",
		"settle dlq drop --instance job/": "job/",
	} {
		// Before readline calls the function, it sets COMP_CWORD and COMP_WORDS. It also splits words at = and :.
		out, err := inBash(t, `
			source "$1"
			read -ra COMP_WORDS <<< "$2"
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			complete -p settle | grep -q -- '-F _settle settle' || exit 1
			_settle
			printf '%s\n' "${COMPREPLY[@]}"`, script, line)
		if got := strings.TrimSpace(out); err != nil || got != want {
			t.Errorf("%s: expected %q, got %q, %v", line, want, got, err)
		}
	}
}

func TestCompletionScriptsCallThisProgram(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	// When zsh loads the script from $fpath on the first completion request, the script must answer that request itself.
	// When a user sources the script, it must only register the completion function.
	contains(t, u.must("completion", "zsh"), "#compdef settle\n", `"$program" __complete "${(@Q)words[2,CURRENT]}"`,
		"if [[ $funcstack[1] == _settle ]]; then\n\t_settle \"$@\"", "else\n\tcompdef _settle settle\nfi\n")
	contains(t, u.must("completion", "fish"), "set -l last (commandline -ct)\n\tsettle __complete (commandline -opc)[2..-1] \"$last\"", "complete -c settle -f -a '(__settle_complete)'\n", "from simulate import dev' -F\n")
	if got := u.run("completion", "tcsh"); got.code != 2 || !strings.Contains(got.err, `must be one of "bash","zsh","fish"`) {
		t.Errorf("expected exit code 2 for an unknown shell, got %+v", got)
	}
}
