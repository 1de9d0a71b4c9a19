package statelesshost_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the code, output and diagram of the guides")

// guides are the pages whose code, output and diagram come from example_test.go.
var guides = []string{"../../docs/stateless.md", "../../docs/stateless-actions.md"}

// A mark stands above a block of a guide and names its source. TestTheGuidesShowWhatRuns compares the two:
//
//	<!-- example: ExampleX -->  what an example prints, below its code
//	<!-- code: name -->         another declaration, a type with its methods
//	<!-- diagram: phone -->     the diagram of hostPhone
var mark = regexp.MustCompile("(?m)^<!-- (example|code|diagram): (\\w+) -->\n(?:\n?```(?:go|text|mermaid)\n(?s:.*?)\n```\n)*")

func TestTheGuidesShowWhatRuns(t *testing.T) {
	t.Parallel()
	code, printed := declarations(t)
	shown := map[string]bool{}
	for _, guide := range guides {
		checkGuide(t, guide, code, printed, shown)
	}
	for name := range printed {
		if !shown[name] {
			t.Errorf("no guide shows %s", name)
		}
	}
}

// checkGuide compares a guide with the code and its output, and records the names that it shows.
func checkGuide(t *testing.T, guide string, code, printed map[string]string, shown map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	want := mark.ReplaceAllStringFunc(string(text), func(block string) string {
		found := mark.FindStringSubmatch(block)
		kind, name := found[1], found[2]
		head := fmt.Sprintf("<!-- %s: %s -->\n", kind, name)
		fence := func(language, text string) string {
			return "```" + language + "\n" + strings.TrimSpace(text) + "\n```\n"
		}
		shown[name] = true
		switch {
		case kind == "diagram":
			return head + fence("mermaid", hostPhone().Mermaid())
		case code[name] == "":
			t.Fatalf("%s: example_test.go has no %q", guide, name)
		case kind == "example":
			return head + fence("go", code[name]) + "\n" + fence("text", printed[name])
		}
		return head + fence("go", code[name])
	})
	if *update {
		if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, wanted := strings.Split(string(text), "\n"), strings.Split(want, "\n")
	for i := range min(len(got), len(wanted)) {
		if got[i] != wanted[i] {
			t.Fatalf("%s:%d differs from the code (go test -update):\ngot:  %s\nwant: %s", guide, i+1, got[i], wanted[i])
		}
	}
	equal(t, "lines", len(got), len(wanted))
	if blocks := strings.Count(want, "\n```go\n"); blocks != strings.Count(want, " -->\n```go\n") {
		t.Errorf("%s has code without a mark above it, which nothing compiles", guide)
	}
}

// declarations returns the source of each declaration of example_test.go, by name, and the output of its examples.
func declarations(t *testing.T) (code, printed map[string]string) {
	t.Helper()
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "example_test.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	code, printed = map[string]string{}, map[string]string{}
	for _, example := range doc.Examples(file) {
		printed["Example"+example.Name] = example.Output
	}
	between := func(from, to token.Pos) string {
		return string(source[set.Position(from).Offset:set.Position(to).Offset])
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			body, _, isExample := strings.Cut(between(d.Body.Lbrace+1, d.Body.Rbrace), "\t// Output:")
			switch {
			case isExample:
				code[d.Name.Name] = strings.ReplaceAll(body, "\n\t", "\n")
			case d.Recv == nil:
				code[d.Name.Name] = between(d.Pos(), d.End())
			default:
				if receiver, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
					code[receiver.Name] += "\n\n" + between(d.Pos(), d.End())
				}
			}
		case *ast.GenDecl:
			if len(d.Specs) == 1 {
				if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
					code[spec.Name.Name] = between(d.Pos(), d.End())
				}
			}
		}
	}
	return code, printed
}
