package command

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// stackFlags are the flags that choose a stack and its parts.
var stackFlags = []string{"local", "table", "queue", "dead-letter-queue"}

// remember stores the grammar, and the stackFlags given on the command line. Flags from environment variables are left
// out, because they also apply to the next command.
func (s *session) remember(line *kong.Context) {
	s.grammar, s.given = line.Model.Node, map[string]string{}
	for _, element := range line.Path {
		if flag := element.Flag; flag != nil && slices.Contains(stackFlags, flag.Name) {
			switch {
			case !flag.IsBool():
				s.given[flag.Name] = "--" + flag.Name + " " + quoted(flag.Target.String())
			case flag.Target.Bool():
				s.given[flag.Name] = "--" + flag.Name
			}
		}
	}
}

// hint returns a command line to paste, such as "settle dlq list --local --instance signup/42". It repeats the
// stackFlags of this command that the suggested command has, followed by args.
func (s *session) hint(command string, args ...string) string {
	words := append([]string{s.name()}, strings.Fields(command)...)
	for _, name := range stackFlags {
		flag, given := s.given[name]
		if !given || slices.Contains(args, "--"+name) || !takes(s.grammar, words[1:], name) {
			continue
		}
		words = append(words, flag)
	}
	for _, arg := range args {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// takes reports whether the command given by words has the flag.
func takes(node *kong.Node, words []string, flag string) bool {
	for _, word := range words {
		k := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		if k < 0 {
			break
		}
		node = node.Children[k]
	}
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == flag })
}
