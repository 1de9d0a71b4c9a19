package cdk_test

import (
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/settle-run/settle/infra/cdk"
)

// A stack whose consumer, gateway and tokentask host the machines of another module, and whose other functions are
// Settle's.
func ExampleNewSettle() {
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, nil, nil)
	cdk.NewSettle(stack, "Library", cdk.Props{
		Code:            cdk.CodeFromFolder("build", "../settle/.bin/functions/arm64"),
		WithoutExamples: true, // no workflows and secrets of the sample machines
		Environment:     map[string]string{"BANK_URL": "https://bank.example.com"},
	})
	app.Synth(nil)
}

func TestReadmeHasThisExample(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, rest, _ := strings.Cut(read("../README.md"), "\n```go\n")
	block, _, found := strings.Cut(rest, "```\n")
	if indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n\t"); !found || !strings.Contains(read("example_test.go"), indented) {
		t.Errorf("expected example_test.go to contain the example of infra/README.md:\n%s", block)
	}
}
