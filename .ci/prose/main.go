// Command prose runs Vale over the Markdown files of the repository, and over the comments and messages of its Go files. On its
// own, Vale checks each line of a Go comment separately, and checks no string literals.
//
//	go run ./.ci/prose VALE
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "expected one argument, the path of vale")
		os.Exit(2)
	}
	found, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// alert is one finding of Vale, in the format of vale --output=JSON.
type alert struct {
	Line    int
	Message string
	Check   string
	Match   string
}

// check returns the findings, each as "file:line: message".
func check(vale string) (found []string, err error) {
	tracked, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tracked files: %w", err)
	}
	folder, err := os.MkdirTemp("", "prose")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	args := []string{"--config=.vale.ini", "--output=JSON", "--no-exit"}
	places := map[string][]token.Position{} // by extracted file: index n-1 has the source position of its line n
	for name := range strings.Lines(string(tracked)) {
		if name = strings.TrimSuffix(name, "\n"); strings.HasSuffix(name, ".md") {
			args = append(args, name)
			continue
		}
		text, lines, err := extract(name)
		if err != nil {
			return nil, err
		}
		extracted := filepath.Join(folder, strings.ReplaceAll(name, "/", "-")+".md")
		if err := os.WriteFile(extracted, []byte(text), 0o600); err != nil {
			return nil, err
		}
		args, places[extracted] = append(args, extracted), lines
	}
	output, err := exec.Command(vale, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", vale, err)
	}
	var alerts map[string][]alert
	if err := json.Unmarshal(output, &alerts); err != nil {
		return nil, fmt.Errorf("decoding the output of %s: %w", vale, err)
	}
	type finding struct {
		place token.Position
		alert alert
	}
	var all []finding
	for file, ofFile := range alerts {
		for _, a := range ofFile {
			place := token.Position{Filename: file, Line: a.Line}
			if lines, ok := places[file]; ok {
				place = lines[a.Line-1]
			}
			all = append(all, finding{place, a})
		}
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.place.Filename, b.place.Filename), cmp.Compare(a.place.Line, b.place.Line), cmp.Compare(a.alert.Match, b.alert.Match))
	})
	for _, f := range all {
		found = append(found, fmt.Sprintf("%s:%d: %s (%s)", f.place.Filename, f.place.Line, f.alert.Message, f.alert.Check))
	}
	return found, nil
}

// extract returns the prose of a Go file as Markdown, with one paragraph per line, and the position of each line in the
// Go file.
func extract(name string) (text string, lines []token.Position, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	add := func(paragraph string, at token.Pos) {
		if strings.Count(paragraph, " ") > 2 {
			fmt.Fprintf(&b, "%s\n\n", paragraph)
			lines = append(lines, set.Position(at), set.Position(at))
		}
	}
	for _, group := range file.Comments {
		if strings.Contains(group.List[0].Text, "Output:") {
			continue // This is the expected output of an example.
		}
		for _, paragraph := range strings.Split(group.Text(), "\n\n") {
			for _, item := range strings.Split(strings.ReplaceAll(paragraph, "\n  - ", "\x00"), "\x00") {
				if !strings.HasPrefix(item, "\t") { // Indented text is code.
					add(strings.Join(strings.Fields(item), " "), group.Pos())
				}
			}
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return b.String(), lines, nil // Tests quote messages.
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && literal.Value[0] == '"' {
			message, _ := strconv.Unquote(literal.Value) // The parser has checked the literal.
			add(strings.Join(strings.Fields(message), " "), literal.Pos())
		}
		return true
	})
	return b.String(), lines, nil
}
