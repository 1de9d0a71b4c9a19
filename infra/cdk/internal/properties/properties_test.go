package properties_test

import (
	"os"
	"testing"

	"github.com/settle-run/settle/infra/cdk/internal/properties"
	"github.com/settle-run/settle/infra/cdk/internal/template"
)

func committed(t *testing.T) template.Template {
	t.Helper()
	text, err := os.ReadFile("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestTemplateHasEveryProperty(t *testing.T) {
	t.Parallel()
	problems := properties.Check(committed(t))
	for _, property := range properties.All {
		t.Run(property.Name, func(t *testing.T) {
			t.Parallel()
			for _, problem := range problems[property.Name] {
				t.Error(problem)
			}
		})
	}
}
