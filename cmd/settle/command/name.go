package command

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// defaultName is the name of this module's command, and the name in all texts. Commands of other modules have other
// names.
const defaultName = "settle"

// nameable matches names that need no quotes in a shell script.
var nameable = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)

// name returns the name by which the program was called.
func (s *session) name() string {
	name := strings.TrimSuffix(filepath.Base(s.program), ".exe")
	if !nameable.MatchString(name) {
		return defaultName
	}
	return name
}

// rename replaces defaultName in the help texts below the node, and prepares named to replace it in messages.
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

// named returns the text with the program's name in place of defaultName.
func (s *session) named(text string) string {
	if s.commands == nil {
		return text
	}
	return s.commands.ReplaceAllString(text, s.name()+" $1")
}
