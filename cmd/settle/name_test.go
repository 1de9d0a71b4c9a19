package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// calledBy runs a command line as a program with another name.
func (u user) calledBy(program string, args ...string) answer {
	var out, errOut bytes.Buffer
	code := command.Run(u.t.Context(), settle(), command.Process{Out: &out, Err: &errOut, StdoutTTY: true, Program: program, Endpoint: "http://127.0.0.1:1"}, args)
	return answer{out.String(), errOut.String(), code}
}

func TestMessagesUseTheNameOfTheProgram(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for _, c := range []struct {
		line string
		want []string
	}{
		{"--help", []string{"Usage: library <command>"}},
		{"--help", []string{`Try "library dev" in one terminal`}},
		{"send --help", []string{"Usage: library send ", "    library send signup/", "(settle.fifo)"}},
		{"completion --help", []string{"library completion bash > ~/.local/share/bash-completion/completions/library\n"}},
		{"version", []string{"library "}},
		{"frob", []string{"library: usage: unexpected argument frob; see library --help\n"}},
		{"dlq", []string{"; see library dlq --help\n"}},
		{"get --local signup/1", []string{"library: cannot connect to http://127.0.0.1:1: start it with library dev\n"}},
		{"completion bash", []string{"\n_library() {\n", "\ncomplete -F _library library\n"}},
		{"completion zsh", []string{"#compdef library\n", "\tcompdef _library library\n"}},
		{"completion fish", []string{"\tlibrary __complete ", "complete -c library -f -a '(__library_complete)'\n"}},
	} {
		got := u.calledBy("/usr/local/bin/library", strings.Fields(c.line)...)
		contains(t, got.out+got.err, c.want...)
		if both := got.out + got.err; !strings.HasSuffix(c.line, "--help") && (strings.Contains(both, "settle "+strings.Fields(c.line)[0]) || strings.Contains(both, "settle:")) {
			t.Errorf("%s: expected the name settle nowhere, got\n%s", c.line, both)
		}
	}
	for program, want := range map[string]string{"": "settle: ", "./the-library.exe": "the-library: ", "/tmp/my $(library)": "settle: "} {
		if got := u.calledBy(program, "frob"); !strings.HasPrefix(got.err, want) {
			t.Errorf("%q: expected an error that begins with %q, got %q", program, want, got.err)
		}
	}
	for _, name := range []string{"acme-settle", "settle-acme", "mysettle"} {
		help := u.calledBy(name, "send", "--help").out
		contains(t, help, "Usage: "+name+" send ", "    "+name+" send signup/")
		if strings.Contains(help, "acme-acme") || strings.Contains(help, "mymy") {
			t.Errorf("expected the name %s once in each place, got\n%s", name, help)
		}
	}
	contains(t, u.calledBy("the-library", "completion", "bash").out, "\n_the_library() {\n", "\ncomplete -F _the_library the-library\n")
}

func TestHelpAndVersionHaveTheUsualSpellings(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for line, same := range map[string]string{"--version": "version", "help": "--help", "help dlq": "dlq --help", "help dlq list": "dlq list --help"} {
		if got, want := u.must(strings.Fields(line)...), u.must(strings.Fields(same)...); got != want {
			t.Errorf("settle %s: expected the output of settle %s, got\n%s", line, same, got)
		}
	}
}

func TestHelpFitsATerminalOf100Columns(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for name := range u.grammar() {
		for line := range strings.SplitSeq(u.must(append(strings.Fields(name), "--help")...), "\n") {
			if console.Width(line) > 100 {
				t.Errorf("settle %s --help: expected at most 100 columns, got %d in %q", name, console.Width(line), line)
			}
		}
	}
}

// bash completes file names if a completion has no candidates and allows file names. Completions allow file names only
// for commands that take files.
func TestBashCompletesFilesForCommandsThatTakeFiles(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"settle simulate zzz": "default", "settle dev --data zzz": "default", "settle dlq show zzz": "", "settle get zzz": ""} {
		out, err := inBash(t, `
			eval "$(settle completion bash)"
			compopt() { printf '%s' "$2"; }
			complete -p settle | grep -q -- '-o' && exit 1
			read -ra COMP_WORDS <<< "$1"
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			_settle`, line)
		if err != nil || out != want {
			t.Errorf("%s: expected a call with %q, got %q, %v", line, want, out, err)
		}
	}
}

// TestChartWithMistakesEndsACommandWithAMessage runs commands whose chart does not compile.
func TestChartWithMistakesEndsACommandWithAMessage(t *testing.T) {
	t.Parallel()
	config := command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(statechart.Must(statechart.Definition[struct{}]{ID: "lamp", Version: 1, Initial: "nowhere"}), durable.MachineConfig{})}
	}}
	for _, line := range []string{"list --local", "graph", "send lamp/1 ON", "resume lamp/1 --wait bright", "dev --aws-port 0 --http-port 0"} {
		var errOut bytes.Buffer
		code := command.Run(t.Context(), config, command.Process{Err: &errOut, Endpoint: "http://127.0.0.1:1"}, strings.Fields(line))
		if got := errOut.String(); code != command.ExitFailed || !strings.HasPrefix(got, "settle: the machines cannot be built: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, `chart "lamp": 2 findings: the chart has no states`) {
			t.Errorf("%s: expected exit code 1 and one line about the chart, got %d and %q", line, code, got)
		}
	}
}
