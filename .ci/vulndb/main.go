// Command vulndb writes the reports of the Go vulnerability database (golang.org/x/vulndb, data/osv) into a folder with the
// files that govulncheck reads: index/db.json, index/modules.json and ID/<id>.json (https://go.dev/doc/security/vuln/database).
//
//	go run ./.ci/vulndb <FOLDER OF REPORTS> <FOLDER TO MAKE>
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report has the fields of a report that the index needs. A report is in the Open Source Vulnerability format.
type report struct {
	ID       string
	Modified time.Time
	Affected []struct{ Package struct{ Name string } }
}

// module is an entry of index/modules.json. It omits the versions that fix a vulnerability. If an entry has no such
// version, govulncheck reads the report itself.
type module struct {
	Path  string          `json:"path"`
	Vulns []vulnerability `json:"vulns"`
}

type vulnerability struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb <folder of reports> <folder to make>")
		os.Exit(2)
	}
	if err := layOut(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "laying out the vulnerability database:", err)
		os.Exit(1)
	}
}

func layOut(from, to string) error {
	paths, err := filepath.Glob(filepath.Join(from, "GO-*.json"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("expected reports in %s, found none", from)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(to, "ID"), 0o755), os.MkdirAll(filepath.Join(to, "index"), 0o755)); err != nil {
		return err
	}
	var newest time.Time
	modules := map[string]*module{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if r.ID+".json" != filepath.Base(path) {
			return fmt.Errorf("%s: expected the report of that name, got %q", path, r.ID)
		}
		if err := os.WriteFile(filepath.Join(to, "ID", filepath.Base(path)), text, 0o644); err != nil {
			return err
		}
		if r.Modified.After(newest) {
			newest = r.Modified
		}
		for _, affected := range r.Affected {
			name := affected.Package.Name
			if modules[name] == nil {
				modules[name] = &module{Path: name}
			}
			if found := (vulnerability{r.ID, r.Modified}); !slices.Contains(modules[name].Vulns, found) {
				modules[name].Vulns = append(modules[name].Vulns, found)
			}
		}
	}
	var index []*module
	for _, m := range modules {
		index = append(index, m)
	}
	slices.SortFunc(index, func(a, b *module) int { return strings.Compare(a.Path, b.Path) })
	return errors.Join(
		writeJSON(filepath.Join(to, "index", "db.json"), map[string]time.Time{"modified": newest}),
		writeJSON(filepath.Join(to, "index", "modules.json"), index),
	)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
