// Package examples has the workflows of infra/workflows for the construct. They are copies, as a module cannot embed files of
// another, and who takes the construct's module into theirs need not take the runtime's: `make infra INFRA_FLAGS=-update` makes
// them anew, and a test of the package infra compares.
package examples

import (
	"embed"
	"fmt"
)

//go:embed *.asl.json
var files embed.FS

// Definition returns the definition of the workflow with the name, such as "job" for job.asl.json.
func Definition(name string) (string, error) {
	text, err := files.ReadFile(name + ".asl.json")
	if err != nil {
		return "", fmt.Errorf("expected the name of a workflow in infra/workflows, got %q: %w", name, err)
	}
	return string(text), nil
}
