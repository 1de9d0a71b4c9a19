// Package workflows has the Step Functions workflows that wait for this repository's machines, in Amazon States
// Language. The same definitions run on AWS and locally.
package workflows

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
