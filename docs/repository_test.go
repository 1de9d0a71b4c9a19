package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// copyRepository copies the files of the working tree, like a clone.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case path != root && (name == ".git" || name == ".bin" || name == "node_modules"):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, strings.TrimPrefix(path, root)), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info() // Scripts stay executable.
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, strings.TrimPrefix(path, root)), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// built holds the folder of the settle executable. TestMain creates and removes the folder.
var built struct {
	sync.Mutex
	folder string
	done   bool
}

// goFlags keeps the path of the source out of compiled packages, so that clones and this repository share one build
// cache. The Makefile uses the same flags.
const goFlags = "-trimpath"

// binaries returns the folder with settle. With stacksFlag, binaries also downloads the modules that the pages import.
func binaries(t *testing.T) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.done {
		return built.folder
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", built.folder, "./cmd/settle")
	build.Dir, build.Env = root, append(build.Environ(), "GOFLAGS="+goFlags, "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building settle: %v\n%s", err, printed)
	}
	if *stacksFlag { // The pages use no module proxy, so download the other modules that they need.
		download := exec.CommandContext(t.Context(), "go", "mod", "download")
		download.Dir = filepath.Join(root, "infra", "cdk")
		download.Env = append(download.Environ(), "GOWORK=off", "GOFLAGS=")
		if printed, err := download.CombinedOutput(); err != nil {
			t.Fatalf("fetching the modules of infra/cdk: %v\n%s", err, printed)
		}
	}
	built.done = true
	return built.folder
}
