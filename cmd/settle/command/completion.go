package command

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/settle-run/settle/runtime/producer"
)

type completionCommand struct {
	Shell string `arg:"" name:"bash|zsh|fish" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// completeWord is the first argument when the scripts ask the program for candidates. It is not a command of the
// grammar, because the words after it must not be parsed.
const completeWord = "__complete"

// completionScripts call this program with the words up to the cursor. No space follows a candidate that ends with a
// slash or an equals sign. For commands that accept files, the scripts complete file names too. {name} stands for the
// program's name, {function} for the name of a shell function.
var completionScripts = map[string]string{
	"bash": `# bash completion for {name}
{function}() {
	local IFS=$'\n' program=${COMP_WORDS[0]/#\~/$HOME}
	COMPREPLY=($("$program" ` + completeWord + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
	if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
		compopt -o nospace 2>/dev/null
	elif [[ ${COMP_WORDS[1]} =~ ^(simulate|import|dev)$ ]]; then
		compopt -o default 2>/dev/null
	fi
}
complete -F {function} {name}
`,
	"zsh": `#compdef {name}
# zsh completion for {name}
{function}() {
	local program=${~${(Q)words[1]}}
	local -a found open
	found=("${(@f)$("$program" ` + completeWord + ` "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
	found=("${(@)found:#}")
	open=("${(@M)found:#*/}")
	found=("${(@)found:#*/}")
	if [[ $words[2] == (simulate|import|dev) ]] && (( ! ${#open} + ${#found} )); then
		_files
		return
	fi
	(( ${#open} )) && compadd -S '' -- "${open[@]}"
	(( ${#found} )) && compadd -- "${found[@]}"
}
if [[ $funcstack[1] == {function} ]]; then
	{function} "$@" # zsh has loaded this file from $fpath to complete a line.
else
	compdef {function} {name}
fi
`,
	"fish": `# fish completion for {name}
function _{function}_complete
	set -l last (commandline -ct)
	{name} ` + completeWord + ` (commandline -opc)[2..-1] "$last" # The quotes keep an empty word.
end
complete -c {name} -f -a '(_{function}_complete)'
complete -c {name} -n '__fish_seen_subcommand_from simulate import dev' -F
`,
}

// noIdentifier matches characters that the name of a shell function must not contain.
var noIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// Run prints the script.
func (c *completionCommand) Run(s *session) error {
	function := "_" + noIdentifier.ReplaceAllString(s.name(), "_")
	return s.printf("%s", strings.NewReplacer("{name}", s.name(), "{function}", function).Replace(completionScripts[c.Shell]))
}

// partialLine is what the user has typed so far.
type partialLine struct {
	node *kong.Node
	// arguments are the arguments before the cursor. `flags` has the values of the flags before the cursor.
	arguments []string
	flags     map[string]string
	// open is the flag whose value is at the cursor.
	open *kong.Flag
}

// complete prints the candidates for the last word, one a line. It does not use the completion libraries for kong
// (kongplete, kong-completion), because they add a space after the slash of a machine and run zsh through its bash
// emulation.
func (s *session) complete(ctx context.Context, words []string) error {
	parser, _, err := s.parser(ctx)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		words = []string{""}
	}
	line := partialLine{node: parser.Model.Node, flags: map[string]string{}}
	for _, word := range words[:len(words)-1] {
		line.take(word)
	}
	last, before := words[len(words)-1], ""
	if last == "=" && line.open != nil { // bash passes the = as a separate word.
		last = ""
	}
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(name, "--") {
		line.take(name)
		last, before = value, name+"="
	}
	for _, candidate := range s.candidates(line, last) {
		if !strings.HasPrefix(candidate, last) {
			continue
		}
		if err := s.printf("%s%s\n", before, candidate); err != nil {
			return err
		}
	}
	return nil
}

// take adds a word that stands before the cursor.
func (c *partialLine) take(word string) {
	name, value, assigned := strings.Cut(word, "=")
	switch {
	case word == "=" && c.open != nil:
	case c.open != nil:
		c.flags[c.open.Name] = word
		c.open = nil
	case strings.HasPrefix(word, "-"):
		for _, flag := range c.allFlags() {
			if name != "--"+flag.Name && (flag.Short == 0 || name != "-"+string(flag.Short)) {
				continue
			}
			switch {
			case assigned:
				c.flags[flag.Name] = value
			case !flag.IsBool():
				c.open = flag
			}
			return
		}
	default:
		for _, child := range c.node.Children {
			if child.Name == word {
				c.node = child
				return
			}
		}
		c.arguments = append(c.arguments, word)
	}
}

// allFlags returns the flags of the command and of its parent commands.
func (c *partialLine) allFlags() []*kong.Flag {
	var flags []*kong.Flag
	for _, group := range c.node.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// candidates returns the possible words at the cursor.
func (s *session) candidates(line partialLine, word string) []string {
	var found []string
	switch {
	case line.open != nil:
		return s.valuesOf(line, line.open.Value)
	case strings.HasPrefix(word, "-"):
		for _, flag := range line.allFlags() {
			found = append(found, "--"+flag.Name)
		}
	case len(line.node.Children) > 0 && len(line.arguments) > 0: // no command has that name
	case len(line.node.Children) > 0:
		for _, child := range line.node.Children {
			if !child.Hidden {
				found = append(found, child.Name)
			}
		}
	default:
		positional := line.node.Positional
		if k := min(len(line.arguments), len(positional)-1); k >= 0 {
			return s.valuesOf(line, positional[k])
		}
	}
	return found
}

// valuesOf returns the possible values of a flag or an argument, without a call to AWS.
func (s *session) valuesOf(line partialLine, value *kong.Value) []string {
	if value.Enum != "" {
		return slices.DeleteFunc(value.EnumSlice(), func(one string) bool { return one == "" })
	}
	known, err := s.machines()
	if err != nil {
		return nil
	}
	machines := known.IDs()
	var found []string
	switch value.Name {
	case "machine", "machine|file":
		return machines
	case "instance", "machine|instance":
		for _, id := range machines {
			found = append(found, id+"/")
		}
		if value.Name != "instance" {
			found = append(machines, found...)
		}
	case "state":
		for _, id := range machines {
			if only := line.flags["machine"]; only == "" || only == id {
				found = append(found, statesOf(known.Versions(id))...)
			}
		}
	case "event":
		if len(line.arguments) > 0 {
			id, _, _ := strings.Cut(line.arguments[0], "/")
			if machine, err := known.Lookup(id); err == nil {
				return machine.Events()
			}
		}
	case "wait":
		found = []string{string(producer.Settled), string(producer.Done)}
		if len(line.arguments) > 0 {
			id, _, _ := strings.Cut(line.arguments[0], "/")
			tags, _ := s.tags(id)
			for _, tag := range tags {
				if !slices.Contains(found, tag) {
					found = append(found, tag)
				}
			}
		}
	}
	return found
}
