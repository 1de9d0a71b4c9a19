package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// TestAnotherModuleHostsItsMachines builds and starts the mains of another module with its own machine.
func TestAnotherModuleHostsItsMachines(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.CopyFS(own, os.DirFS("testdata/own")); err != nil {
		t.Fatal(err)
	}
	// The copy requires the versions in this module's go.mod. The module cache has them, so go needs no proxy.
	theirs, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(theirs), "\n")
	mod := "module example.com/orders\n" + requirements + "\nrequire github.com/settle-run/settle v0.0.0\n\nreplace github.com/settle-run/settle => " + root + "\n"
	if err := os.WriteFile(filepath.Join(own, "go.mod"), []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"consumer", "gateway"} {
		source, err := os.ReadFile(filepath.Join(own, function, "main.go"))
		if lines := strings.Count(string(source), "\n"); err != nil || lines > 25 {
			t.Errorf("the main of %s has %d lines (%v), want at most 25", function, lines, err)
		}
		path := filepath.Join(own, function, "bootstrap")
		command := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-tags=lambda.norpc", "-o", path, "./"+function)
		command.Dir, command.Env = own, append(os.Environ(), "GOWORK=off", "GOPROXY=off")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", function, err, out)
		}
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			invoke := func(variables ...string) (answer, logs string) {
				var log strings.Builder
				bootstrap, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{Path: path, Timeout: 15 * time.Minute, Logs: &log, Env: append(variables, environment...)})
				if err != nil {
					t.Fatal(err)
				}
				out, _ := bootstrap.Start().Invoke(t.Context(), []byte(`{"version":"2.0","rawPath":"/machines","requestContext":{"http":{"method":"GET"}},"Records":[]}`))
				if err := bootstrap.Close(); err != nil {
					t.Error(err)
				}
				return string(out), log.String()
			}
			answer, logs := invoke("BANK_URL=https://bank.example.com")
			if want := map[string]string{"consumer": `"batchItemFailures":[]`, "gateway": `\"id\":\"order\"`}[function]; !strings.Contains(answer, want) {
				t.Errorf("got the answer %s, want it to contain %s; the log:\n%s", answer, want, logs)
			}
			if !strings.Contains(logs, `"_aws":{`) {
				t.Errorf("got no metrics:\n%s", logs)
			}
			if _, logs := invoke(); !strings.Contains(logs, "environment variable BANK_URL: expected the address of the bank, got nothing: set it") {
				t.Errorf("want an error that names the missing variable, got\n%s", logs)
			}
		})
	}
}
