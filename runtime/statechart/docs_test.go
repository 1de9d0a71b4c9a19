package statechart_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// chartsGuide matches the tutorial and its reference: the pages whose code, output, diagrams and findings come from
// this package.
var chartsGuide = []string{"../../docs/charts.md", "../../docs/charts/*.md"}

// drawn holds the charts shown as diagrams.
var drawn = map[string]func() *statechart.Chart[nothing]{"turnstile": turnstile, "shipment": shipment, "pausable": pausable}

// A comment on a page names the block below it:
//
//	<!-- example: ExampleX -->  the code of an example, and its output
//	<!-- output: ExampleX -->   only the output
//	<!-- code: name -->         another declaration of the examples' files
//	<!-- diagram: name -->      one of drawn
//	<!-- findings -->           all findings of Compile
//	<!-- excerpt: path -->      a part of a file
//
// TestChartsGuideMatchesTheCode fails if a block differs from its source, or if an example is missing from the pages.
// go test -update writes the blocks, except excerpts. The tests of docs run blocks below <!-- file: path -->.
func TestChartsGuideMatchesTheCode(t *testing.T) {
	t.Parallel()
	g := guide{examples: map[string]*doc.Example{}, code: map[string]string{}, shown: map[string]bool{}}
	g.readExamples(t)
	for _, pattern := range chartsGuide {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("expected pages at %s, got %v and %v", pattern, pages, err)
		}
		for _, page := range pages {
			g.compare(t, page)
		}
	}
	for name := range g.examples {
		if !g.shown[name] {
			t.Errorf("no page of %v shows Example%s", chartsGuide, name)
		}
	}
}

// compare fails the test unless the blocks of the page match their sources. With -update it rewrites the page.
func (g *guide) compare(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := g.fill(page, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, filled := strings.Split(string(text), "\n"), strings.Split(want, "\n")
	for i := range min(len(got), len(filled)) {
		if got[i] != filled[i] {
			t.Fatalf("%s:%d differs from the code (go test -update):\ngot:  %s\nwant: %s", page, i+1, got[i], filled[i])
		}
	}
	equal(t, page+": lines", len(got), len(filled))
}

// guide fills pages from the sources of this package.
type guide struct {
	examples map[string]*doc.Example
	// code maps names to the source of example bodies and other declarations. The source of a type includes its methods
	// with value receivers.
	code  map[string]string
	shown map[string]bool
}

func (g *guide) readExamples(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, path, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range doc.Examples(file) {
			g.examples[example.Name] = example
		}
		between := func(from, to token.Pos) string {
			return string(source[set.Position(from).Offset:set.Position(to).Offset])
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if strings.HasPrefix(d.Name.Name, "Example") {
					body, _, _ := strings.Cut(between(d.Body.Lbrace+1, d.Body.Rbrace), "\t// Output:")
					g.code[d.Name.Name] = strings.TrimSpace(strings.ReplaceAll(body, "\n\t", "\n"))
				} else if d.Recv == nil {
					g.code[d.Name.Name] = between(d.Pos(), d.End())
				} else if receiver, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
					g.code[receiver.Name] += "\n\n" + between(d.Pos(), d.End())
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						g.code[spec.Name.Name] = between(d.Pos(), d.End())
					}
				}
			}
		}
	}
}

var (
	guideMark = regexp.MustCompile(`^<!-- (example|output|code|diagram|findings|excerpt)(?:: (\S+))? -->$`)
	// guideFence lists the fences that may follow a mark.
	guideFence = map[string][]string{
		"example": {"```go", "```text"}, "output": {"```text"}, "code": {"```go"}, "diagram": {"```mermaid"}, "excerpt": {"```text"},
	}
)

// fill returns the page with the blocks of its marks filled in.
func (g *guide) fill(page, text string) (string, error) {
	var out []string
	isRun := strings.Contains(text, "\n<!-- run -->\n")
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		mark := guideMark.FindStringSubmatch(lines[i])
		if mark == nil {
			if isFile := i > 0 && strings.HasPrefix(lines[i-1], "<!-- file: "); lines[i] == "```go" && !(isFile && isRun) {
				return "", fmt.Errorf("%s:%d: code without a mark above it, so nothing compiles it", page, i+1)
			}
			out = append(out, lines[i])
			continue
		}
		owned := g.owned(lines[i+1:], mark[1])
		shown, err := g.show(mark[1], mark[2], strings.Join(lines[i+1:i+1+owned], "\n"))
		if err != nil {
			return "", fmt.Errorf("%s:%d: %w", page, i+1, err)
		}
		out = append(out, lines[i])
		out = append(out, strings.Split(shown, "\n")...)
		i += owned
	}
	return strings.Join(out, "\n"), nil
}

// owned returns the number of lines that belong to a mark.
func (g *guide) owned(lines []string, kind string) int {
	n := 0
	if kind == "findings" {
		for n < len(lines) && !strings.HasPrefix(lines[n], "## ") {
			n++
		}
		return n
	}
	for _, fence := range guideFence[kind] {
		at := n
		for at < len(lines) && lines[at] == "" {
			at++
		}
		if at == len(lines) || lines[at] != fence {
			break
		}
		n = at + 1 + slices.Index(lines[at+1:], "```") + 1
	}
	return n
}

// show returns the text for a mark.
func (g *guide) show(kind, name, now string) (string, error) {
	fence := func(language, text string) string {
		return "```" + language + "\n" + strings.TrimRight(text, "\n") + "\n```"
	}
	example := g.examples[strings.TrimPrefix(name, "Example")]
	switch {
	case (kind == "example" || kind == "output") && example != nil:
		g.shown[example.Name] = true
		if kind == "output" {
			return fence("text", example.Output), nil
		}
		return fence("go", g.code[name]) + "\n\n" + fence("text", example.Output), nil
	case kind == "code" && g.code[name] != "":
		return fence("go", g.code[name]), nil
	case kind == "diagram" && drawn[name] != nil:
		return fence("mermaid", drawn[name]().Mermaid()), nil
	case kind == "findings":
		return findingsTables()
	case kind == "excerpt":
		source, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			return "", err
		}
		excerpt := strings.TrimSuffix(strings.TrimPrefix(now, "```text\n"), "```")
		if !strings.Contains(string(source), excerpt) {
			return "", fmt.Errorf("%s does not contain the excerpt", name)
		}
		return now, nil
	default:
		return "", fmt.Errorf("this package has no %s %q", kind, name)
	}
}

// findingsTitles gives the findings of each file a title, in the order of the page.
var findingsTitles = []struct{ file, title string }{
	{"check.go", "States and payloads"},
	{"checksize.go", "Size"},
	{"compile.go", "Names and defaults"},
	{"target.go", "Targets"},
	{"checklinked.go", "Waiting, events and services"},
	{"checkgraph.go", "The chart as a whole"},
	{"checkalways.go", "Eventless transitions"},
	{"checkshadowed.go", "Transitions that are never taken"},
	{"checkchild.go", "Child instances"},
	{"defer.go", "Deferred events"},
	{"resolve.go", "Answers to tasks"},
	{"workflow.go", "Workflows"},
	{"meta.go", "Meta"},
	{"checkstored.go", "The context"},
	{"migration.go", "Migrations"},
	{"warnings.go", "Warnings"},
}

// findingsTables lists the findings reported by calls of find in this package.
func findingsTables() (string, error) {
	rows := map[string][]string{}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return "", err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			if fn, ok := call.Fun.(*ast.SelectorExpr); !ok || fn.Sel.Name != "find" && fn.Sel.Name != "warn" {
				return true
			}
			row := "| " + template(call.Args[1]) + " | " + template(call.Args[2]) + " |"
			if !strings.HasPrefix(row, "| … |") && !slices.Contains(rows[path], row) {
				rows[path] = append(rows[path], row)
			}
			return true
		})
	}
	var b strings.Builder
	for _, about := range findingsTitles {
		fmt.Fprintf(&b, "\n**%s**\n\n| finding | fix |\n|---|---|\n%s\n", about.title, strings.Join(rows[about.file], "\n"))
		delete(rows, about.file)
	}
	for path := range rows {
		return "", fmt.Errorf("%s makes findings: give it a title in findingsTitles", path)
	}
	return b.String(), nil
}

var verb = regexp.MustCompile(`%[a-z]`)

// template returns the text of a string expression. Unknown parts become "…".
func template(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return e.Value
		}
		return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
	case *ast.BinaryExpr:
		return template(e.X) + template(e.Y)
	case *ast.CallExpr:
		if fn, ok := e.Fun.(*ast.SelectorExpr); ok && fn.Sel.Name == "Sprintf" {
			return verb.ReplaceAllString(template(e.Args[0]), "…")
		} else if ok && strings.HasPrefix(fn.Sel.Name, "similar") {
			return "" // The page describes suggestions once for all findings.
		}
	}
	return "…"
}
