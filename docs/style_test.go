package docs_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// linesMax has the limits of docs/style.md for the lines of a Go file and of a page.
var linesMax = map[string]int{".go": 400, ".md": 250}

// docLinesMax has the limits of docs/style.md for the lines of a package's documentation.
var docLinesMax = map[string]int{"runtime/statechart": 1100, "runtime/durable": 699, "runtime/instances": 380}

func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	for folder, limit := range docLinesMax {
		show := exec.CommandContext(t.Context(), "go", "doc", "-all", "./"+folder)
		show.Dir = root
		text, err := show.Output()
		if err != nil {
			t.Fatalf("go doc -all ./%s: %v", folder, err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > limit {
			t.Errorf("%s: expected at most %d lines of documentation, got %d: export less", folder, limit, lines)
		}
	}
}

// TestFilesAreShort checks the pages, and the Go files of all modules except generated ones.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	count := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		limit := linesMax[filepath.Ext(path)]
		if entry.IsDir() || limit == 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		lines := bytes.Count(text, []byte("\n"))
		if lines <= limit {
			return nil
		}
		if filepath.Ext(path) == ".md" {
			t.Errorf("%s: expected at most %d lines, got %d: split it by subject", path, limit, lines)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil && !ast.IsGenerated(file) {
			t.Errorf("%s: expected at most %d lines, got %d: split it by subject", path, limit, lines)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 500 {
		t.Errorf("expected more than 500 Go files below %s, got %d", root, count)
	}
}
