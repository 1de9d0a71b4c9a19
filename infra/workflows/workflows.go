// Package workflows has the Step Functions workflows that wait for the machines of this repository, in
// Amazon States Language: what is deployed, and what runs unmodified on this machine.
package workflows

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
