// Package examples has copies of the workflows in infra/workflows for the construct. A module cannot embed files of
// another module, and users of the construct's module need not require the runtime's. `make infra INFRA_FLAGS=-update`
// regenerates the copies, and a test of the package infra compares them.
package examples

import (
	"embed"
	"fmt"
)

//go:embed *.asl.json
var files embed.FS

// Definition returns the definition of a workflow by its name, such as "job" for job.asl.json.
func Definition(name string) (string, error) {
	text, err := files.ReadFile(name + ".asl.json")
	if err != nil {
		return "", fmt.Errorf("expected the name of a workflow in infra/workflows, got %q: %w", name, err)
	}
	return string(text), nil
}
