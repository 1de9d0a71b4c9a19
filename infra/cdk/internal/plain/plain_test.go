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

var update = flag.Bool("update", false, "write infra/template.yaml and infra/functions.json anew")

// infra is the folder of the committed files.
const infra = "../../.."

// kernel is CDK's, which does one thing at a time.
var kernel sync.Mutex

func synthesized() ([]byte, error) {
	kernel.Lock()
	defer kernel.Unlock()
	return Synthesize()
}

// TestTheCommittedFilesAreMadeFromTheConstruct is the drift test. With -update it writes them.
func TestTheCommittedFilesAreMadeFromTheConstruct(t *testing.T) {
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
			t.Errorf("infra/%s is not what infra/cdk makes: run `make infra INFRA_FLAGS=-update` and look at the difference\n%s", name, firstDifference(got, want))
		}
	}
}

func TestTheSameConstructGivesTheSameBytes(t *testing.T) {
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
		t.Errorf("synthesized twice, got two templates\n%s", firstDifference(first, second))
	}
}

// firstDifference returns the first lines that are not the same.
func firstDifference(got, want []byte) string {
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			return "got  " + string(gotLines[i]) + "\nwant " + string(wantLines[i])
		}
	}
	return "one is longer"
}
