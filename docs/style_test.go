package docs_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linesMax is the limit of docs/style.md for the lines of a Go file.
const linesMax = 400

// TestFilesAreShort checks the Go files of all modules, except generated ones.
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
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		lines := bytes.Count(text, []byte("\n"))
		if lines <= linesMax {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil && !ast.IsGenerated(file) {
			t.Errorf("%s: expected at most %d lines, got %d: split it by subject", path, linesMax, lines)
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
