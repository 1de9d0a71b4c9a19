package command

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// defaultName is what the command is called in all texts; one of somebody else's module has its own name.
const defaultName = "settle"

// nameable is a name that can stand in a shell's script as it is.
var nameable = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)

// name is what the program is called by.
func (s *session) name() string {
	name := strings.TrimSuffix(filepath.Base(s.program), ".exe")
	if !nameable.MatchString(name) {
		return defaultName
	}
	return name
}

// rename has the help texts below the node, and all that is said later, call this program by its name.
func (s *session) rename(root *kong.Node) {
	if s.name() == defaultName {
		return
	}
	words := []string{"--help", "--version"}
	for _, node := range root.Children {
		words = append(words, regexp.QuoteMeta(node.Name))
	}
	s.commands = regexp.MustCompile(`\b` + defaultName + ` (` + strings.Join(words, "|") + `)\b`)
	files := strings.NewReplacer("completions/"+defaultName, "completions/"+s.name(), "/_"+defaultName, "/_"+s.name())
	_ = kong.Visit(root, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Node:
			node.Help, node.Detail = s.named(node.Help), files.Replace(s.named(node.Detail))
		case *kong.Flag:
			node.Help = s.named(node.Help)
		}
		return next(nil)
	})
}

// named returns a text in which this program is called by its name.
func (s *session) named(text string) string {
	if s.commands == nil {
		return text
	}
	return s.commands.ReplaceAllString(text, s.name()+" $1")
}
