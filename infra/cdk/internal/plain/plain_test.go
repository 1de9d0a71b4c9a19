package plain

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

var update = flag.Bool("update", false, "regenerate infra/template.yaml and infra/functions.json")

// infra is the folder of the generated files.
const infra = "../../.."

// kernel serializes the use of CDK's process, which handles one app at a time.
var kernel sync.Mutex

func synthesized() ([]byte, error) {
	kernel.Lock()
	defer kernel.Unlock()
	return Synthesize()
}

// TestCommittedFilesAreCurrent compares the committed files with the construct's output. With -update it writes them.
func TestCommittedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	text, err := synthesized()
	if err != nil {
		t.Fatal(err)
	}
	kernel.Lock()
	options, err := Options()
	kernel.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := template.Render(text)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.Parse(rendered)
	if err != nil {
		t.Fatal(err)
	}
	extract, err := template.Extract(parsed, options)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"template.yaml": rendered, "functions.json": extract} {
		path := filepath.Join(infra, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("infra/%s differs from the output of infra/cdk: run `make infra INFRA_FLAGS=-update` and review the diff\n%s", name, firstDifference(got, want))
		}
	}
}

func TestSynthesisIsDeterministic(t *testing.T) {
	t.Parallel()
	first, err := synthesized()
	if err != nil {
		t.Fatal(err)
	}
	second, err := synthesized()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("two syntheses differ\n%s", firstDifference(first, second))
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(got, want []byte) string {
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			return "got  " + string(gotLines[i]) + "\nwant " + string(wantLines[i])
		}
	}
	return "one has more lines"
}
