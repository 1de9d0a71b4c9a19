package infra

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/lanes"
)

// variables returns the environment variables named in the functions' code.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	for _, path := range []string{"../runtime/host/settings.go", "../machines/samples/settings.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "SETTLE_") {
					named[text] = true
				}
			}
			return true
		})
	}
	if len(named) < 20 {
		t.Fatalf("expected at least 20 variables, got %d", len(named))
	}
	return named
}

func TestFunctionsReadEveryVariableOfTheirEnvironment(t *testing.T) {
	t.Parallel()
	named := variables(t)
	functions, err := Functions()
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(functions)); !slices.Equal(names, []string{"consumer", "delay", "executions", "gateway", "objects", "tokentask"}) {
		t.Errorf("got functions %v", names)
	}
	for name, function := range functions {
		for _, environment := range append(slices.Collect(maps.Values(function.Rotations)), function.Environment) {
			for variable := range environment {
				if !named[variable] {
					t.Errorf("%s: unexpected variable %s, which no function reads", name, variable)
				}
			}
		}
	}
}

func TestEnvironmentHasTheRequiredVariables(t *testing.T) {
	t.Parallel()
	functions, err := Functions()
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{
		"consumer": host.Consumer(nil).Requires, "gateway": host.Gateway(nil, nil).Requires, "tokentask": host.TokenTask(nil).Requires,
		"delay": host.Delay().Requires, "executions": host.Executions().Requires, "objects": {host.QueueURL, host.DeadLetterQueueURL},
	}
	for name, function := range functions {
		if len(lists[name]) == 0 {
			t.Errorf("%s: expected a list of required variables", name)
		}
		for _, variable := range lists[name] {
			if function.Environment[variable] == "" {
				t.Errorf("%s: expected the required variable %q in infra/cdk/functions.go", name, variable)
			}
		}
	}
}

// infra/cdk has its own copy of the prefix of execution names, because it does not import the package instances.
func TestExecutionPrefixMatchesInfra(t *testing.T) {
	t.Parallel()
	roles, err := os.ReadFile("cdk/roles.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := "const executionPrefix = " + strconv.Quote(instances.ExecutionPrefix); !strings.Contains(string(roles), want) {
		t.Errorf("expected %s in infra/cdk/roles.go", want)
	}
}

// TestConstructAcceptsTheSameLaneRules parses the rules of the construct's own test. The construct and the functions
// must accept the same rules.
func TestConstructAcceptsTheSameLaneRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("cdk/testdata/lane-rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct{ Valid, Invalid []string }
	if err := json.Unmarshal(text, &rules); err != nil || len(rules.Valid) == 0 || len(rules.Invalid) == 0 {
		t.Fatalf("expected valid and invalid rules, got %v, %v", rules, err)
	}
	for _, text := range slices.Concat(rules.Valid, rules.Invalid) {
		if _, err := lanes.ParseRules(text, []string{"a", "b", "c"}); (err == nil) != slices.Contains(rules.Valid, text) {
			t.Errorf("%q: expected accepted=%t, got %v", text, slices.Contains(rules.Valid, text), err)
		}
	}
}

// infra/cdk is a separate module and cannot embed files of this module, so it has copies of the workflows.
func TestConstructHasTheSameWorkflows(t *testing.T) {
	t.Parallel()
	ours, err := filepath.Glob("workflows/*.asl.json")
	if err != nil {
		t.Fatal(err)
	}
	copies, err := filepath.Glob("cdk/examples/*.asl.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(ours) == 0 || len(copies) != len(ours) {
		t.Errorf("expected %d workflows in infra/cdk/examples, got %v", len(ours), copies)
	}
	for _, path := range ours {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if got, err := os.ReadFile(filepath.Join("cdk/examples", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("infra/cdk/examples/%s differs from infra/workflows/%s (%v): run `make infra INFRA_FLAGS=-update`", name, name, err)
		}
	}
}

// TestConstructModuleCanBeFetched checks that infra/cdk/go.mod has no replace directive and does not require this
// module. Go ignores the replace directives of a required module.
func TestConstructModuleCanBeFetched(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("cdk/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "replace") || strings.HasPrefix(strings.TrimSpace(line), "github.com/settle-run/settle ") {
			t.Errorf("infra/cdk/go.mod: expected neither a replace directive nor a requirement of this module, got %s", line)
		}
	}
}

// make deploy-cdk uses the administrator's credentials, so the versions of the CDK CLI and its packages are pinned.
func TestCDKCommandLineHasALockFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("cdk/testdata/npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if cdk := lock.Packages["node_modules/aws-cdk"]; cdk.Version == "" || !strings.HasPrefix(cdk.Integrity, "sha512-") {
		t.Errorf("expected aws-cdk with its hash in infra/cdk/testdata/npm/package-lock.json, got %v", cdk)
	}
	for _, path := range []string{"../Makefile", "../docs/deploy.md", "../docs/deploy-a-machine.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("npx aws-cdk")) || bytes.Contains(text, []byte("npx --yes")) {
			t.Errorf("%s: expected the CDK command line of a lock file, got npx", path)
		}
	}
}

func TestTableMatchesTheRuntime(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	client := dynamodb.NewFromConfig(aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	if err := dynamostore.CreateIndexedTable(t.Context(), client, "settle"); err != nil {
		t.Fatal(err)
	}
	table, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("settle")})
	if err != nil {
		t.Fatal(err)
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("settle")})
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Table struct {
			AttributeDefinitions    []types.AttributeDefinition
			KeySchema               []types.KeySchemaElement
			GlobalSecondaryIndexes  []types.GlobalSecondaryIndexDescription
			TimeToLiveSpecification types.TimeToLiveSpecification
		}
	}
	if err := json.Unmarshal(extract, &read); err != nil {
		t.Fatal(err)
	}
	sorted := cmpopts.SortSlices(func(a, b types.AttributeDefinition) bool { return *a.AttributeName < *b.AttributeName })
	schema := cmp.Options{sorted, cmpopts.IgnoreUnexported(types.AttributeDefinition{}, types.KeySchemaElement{}, types.Projection{}, types.GlobalSecondaryIndexDescription{})}
	if diff := cmp.Diff(table.Table.AttributeDefinitions, read.Table.AttributeDefinitions, schema); diff != "" {
		t.Errorf("attributes (-runtime +template):\n%s", diff)
	}
	if diff := cmp.Diff(table.Table.KeySchema, read.Table.KeySchema, schema); diff != "" {
		t.Errorf("keys (-runtime +template):\n%s", diff)
	}
	if len(table.Table.GlobalSecondaryIndexes) != 1 || len(read.Table.GlobalSecondaryIndexes) != 1 {
		t.Fatalf("expected one index, got %d and %d", len(table.Table.GlobalSecondaryIndexes), len(read.Table.GlobalSecondaryIndexes))
	}
	made, ours := table.Table.GlobalSecondaryIndexes[0], read.Table.GlobalSecondaryIndexes[0]
	if diff := cmp.Diff(types.GlobalSecondaryIndexDescription{IndexName: made.IndexName, KeySchema: made.KeySchema, Projection: made.Projection}, ours, schema); diff != "" {
		t.Errorf("index (-runtime +template):\n%s", diff)
	}
	if got := aws.ToString(read.Table.TimeToLiveSpecification.AttributeName); got != *ttl.TimeToLiveDescription.AttributeName || !aws.ToBool(read.Table.TimeToLiveSpecification.Enabled) {
		t.Errorf("TTL: expected %s, got %s", *ttl.TimeToLiveDescription.AttributeName, got)
	}
}
