package cdk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// `make infra` installs the tools here.
const (
	guardFolder  = "testdata/npm/node_modules/@cdklabs/cdk-validator-cfnguard/bin"
	guardRules   = "rules"
	aslValidator = "../workflows/testdata/npm/node_modules/asl-validator/dist/bin/asl-validator.js"
)

// The checks of a template.
const (
	byProperties   = "properties"
	byGuard        = "cfn-guard"
	byASLValidator = "asl-validator"
	byLint         = "cfn-lint"
)

// checks return the problems of a template, or "". `laned` reports whether the template has the lanes of withLanes.
var checks = map[string]func(t *testing.T, of object, laned bool) string{
	byProperties:   func(_ *testing.T, of object, laned bool) string { return broken(of, laned) },
	byGuard:        func(t *testing.T, of object, _ bool) string { t.Helper(); return checkGuard(t, of) },
	byASLValidator: func(t *testing.T, of object, _ bool) string { t.Helper(); return checkWorkflows(t, of) },
	byLint:         func(t *testing.T, of object, _ bool) string { t.Helper(); return checkLint(t, of) },
}

// checkGuard runs cfn-guard, from the npm package, with the rules of this repository.
func checkGuard(t *testing.T, of object) string {
	t.Helper()
	system := map[string]string{"linux": "ubuntu", "darwin": "macos"}[runtime.GOOS]
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	guard := filepath.Join(guardFolder, system, machine, "cfn-guard")
	installed(t, guard)
	output, err := exec.CommandContext(t.Context(), guard, "validate", "--rules", guardRules, "--data", written(t, of),
		"--structured", "--output-format", "json", "--show-summary", "none").CombinedOutput()
	const broken = 19 // exit code for a template that violates rules
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != broken) {
		t.Fatalf("cfn-guard failed: %v\n%s", err, output)
	}
	var reports []struct {
		NotCompliant []struct{ Rule struct{ Name string } } `json:"not_compliant"`
		Compliant    []string                               `json:"compliant"`
		Skipped      []string                               `json:"not_applicable"`
	}
	if err := json.Unmarshal(output, &reports); err != nil || len(reports) != 1 {
		t.Fatalf("expected one report of cfn-guard, got %v\n%s", err, output)
	}
	var rules []string
	for _, broken := range reports[0].NotCompliant {
		rules = append(rules, broken.Rule.Name)
	}
	for _, skipped := range reports[0].Skipped {
		rules = append(rules, skipped+" (not applied)")
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), "\n")
}

// checkWorkflows runs asl-validator on the workflows.
func checkWorkflows(t *testing.T, of object) string {
	t.Helper()
	var said strings.Builder
	resources, _ := of["Resources"].(object)
	for _, id := range slices.Sorted(maps.Keys(resources)) {
		if definition, ok := readable(at(resources[id], "Properties", "DefinitionString")).(string); ok {
			definition = strings.ReplaceAll(definition, "${AWS::Partition}", "aws")
			validated, _ := validations.LoadOrStore(definition, sync.OnceValue(func() string { return validate(t, definition) }))
			said.WriteString(validated.(func() string)())
		}
	}
	return said.String()
}

// validations caches the results of asl-validator by definition, because most mistakes do not change the workflows.
var validations sync.Map

// validate returns asl-validator's report on a definition.
func validate(t *testing.T, definition string) string {
	t.Helper()
	installed(t, aslValidator)
	path := filepath.Join(t.TempDir(), "workflow.asl.json")
	if err := os.WriteFile(path, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "node", aslValidator, "--json-path", path).CombinedOutput()
	var refused *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused) && refused.ExitCode() == 1:
		return string(output)
	}
	t.Fatalf("asl-validator failed: %v\n%s", err, output)
	return ""
}

// checkLint runs cfn-lint on the template. It skips the test if cfn-lint is not installed.
func checkLint(t *testing.T, of object) string {
	t.Helper()
	lint, err := exec.LookPath("cfn-lint")
	if err != nil {
		t.Skip("cfn-lint is not installed: pip install cfn-lint==1.51.0")
	}
	output, err := exec.CommandContext(t.Context(), lint, "--non-zero-exit-code", "error", "--format", "parseable", written(t, of)).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("cfn-lint failed: %v\n%s", err, output)
	}
	if err == nil {
		return ""
	}
	return string(output)
}

func written(t *testing.T, of object) string {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func installed(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("expected %s: run `make infra` to install it", path)
	}
}

func TestTemplatePassesEveryCheck(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		for laned, template := range templates {
			t.Run(fmt.Sprintf("%s, lanes %t", name, laned), func(t *testing.T) {
				t.Parallel()
				if said := check(t, template(t), laned); said != "" {
					t.Errorf("%s rejects the template:\n%s", name, said)
				}
			})
		}
	}
}
