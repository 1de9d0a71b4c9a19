package docs_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra"
)

// The tests in this file compare the pages' tables about the stack with the template, the functions and their
// telemetry. A row names its subjects in backticks, usually in the first column.

const template = "infra/template.yaml"

// sectionOf returns the text below a heading of a page, up to the next heading of its level.
func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, page), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s: expected a heading %q", page, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+level+" ")
	return section
}

// tablesOf returns the tables of a text, without their headers. A row is a list of cells.
func tablesOf(text string) (tables [][][]string) {
	inTable := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "|---"):
			inTable = true
			tables = append(tables, nil)
		case inTable:
			tables[len(tables)-1] = append(tables[len(tables)-1], cells)
		}
	}
	return tables
}

var backticks = regexp.MustCompile("`([^`]+)`")

func quoted(text string) (names []string) {
	for _, found := range backticks.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// rowsOf returns the rows of a table, keyed by the names in their first column. Each name may occur once.
func rowsOf(t *testing.T, table [][]string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, row := range table {
		for _, name := range quoted(row[0]) {
			if rows[name] != nil {
				t.Errorf("expected %s in one row, got two", name)
			}
			rows[name] = row
		}
	}
	return rows
}

// sameNames fails the test unless the lists `page` and `there` have the same names.
func sameNames(t *testing.T, what string, page, there []string) {
	t.Helper()
	for _, name := range there {
		if !slices.Contains(page, name) {
			t.Errorf("the page has no row for the %s %s", what, name)
		}
	}
	for _, name := range page {
		if !slices.Contains(there, name) {
			t.Errorf("the page has a row for %s, but no such %s exists", name, what)
		}
	}
}

// resourcePattern finds a resource of the template: its name, its type and its properties.
var resourcePattern = regexp.MustCompile(`(?m)^  (\w+):\n    Type: (AWS::\S+)\n((?:     ?.*\n)*)`)

type resource struct{ name, kind, properties string }

func resourcesOf(t *testing.T) (resources []resource) {
	t.Helper()
	for _, found := range resourcePattern.FindAllStringSubmatch(read(t, template), -1) {
		resources = append(resources, resource{found[1], found[2], found[3]})
	}
	if len(resources) < 50 {
		t.Fatalf("expected dozens of resources in %s, got %d", template, len(resources))
	}
	return resources
}

// keysOf returns the keys of a part of the template.
func keysOf(t *testing.T, part string) (keys []string) {
	t.Helper()
	_, text, _ := strings.Cut(read(t, template), "\n"+part+":\n")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		if key, isKey := strings.CutSuffix(strings.TrimSpace(line), ":"); isKey && strings.HasPrefix(line, "  ") && line[2] != ' ' {
			keys = append(keys, key)
		}
	}
	if len(keys) < 3 {
		t.Fatalf("expected several %s in %s, got %v", part, template, keys)
	}
	return keys
}

// thresholdPattern finds a threshold: a number, or the parameter that sets it.
var thresholdPattern = regexp.MustCompile(`(?m)^      Threshold: (?:(\d+)|!Ref (\w+))$`)

func TestTheOperationsPageHasEachAlarm(t *testing.T) {
	t.Parallel()
	rows := rowsOf(t, tablesOf(sectionOf(t, "docs/operations.md", "## Alarms"))[0])
	var alarms []string
	for _, r := range resourcesOf(t) {
		if r.kind != "AWS::CloudWatch::Alarm" {
			continue
		}
		name := strings.TrimSuffix(r.name, "Alarm")
		alarms = append(alarms, name)
		threshold := thresholdPattern.FindStringSubmatch(r.properties)
		if threshold == nil {
			t.Fatalf("%s: expected a threshold in\n%s", r.name, r.properties)
		}
		if parameter := threshold[2]; parameter != "" {
			if rows[name] != nil && !slices.Contains(quoted(rows[name][1]), parameter) {
				t.Errorf("%s rings at the parameter %s, but the page has:%s", name, parameter, rows[name][1])
			}
			continue
		}
		seconds, err := strconv.Atoi(threshold[1])
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(fmt.Sprintf(" %d minutes", seconds/60), " 1 minutes", " a minute", 1)
		if seconds > 0 && rows[name] != nil && !strings.Contains(rows[name][1], want) {
			t.Errorf("%s rings at%s, but the page has:%s", name, want, rows[name][1])
		}
	}
	sameNames(t, "alarm", slices.Sorted(maps.Keys(rows)), alarms)
}

var alarmedPattern = regexp.MustCompile(`MetricName: (\w+)\n      Namespace: Settle\n`)

// metricsPattern finds the names of the functions' own metrics.
var metricsPattern = regexp.MustCompile(`var (?:count|extreme)Names = \[\.\.\.\]string\{(.*)\}`)

func TestTheMetricsPageHasEachMetric(t *testing.T) {
	t.Parallel()
	var metrics []string
	for _, found := range metricsPattern.FindAllStringSubmatch(read(t, "runtime/host/internal/telemetry/telemetry.go"), -1) {
		for name := range strings.SplitSeq(found[1], ", ") {
			metrics = append(metrics, strings.Trim(name, `"`))
		}
	}
	if len(metrics) < 10 {
		t.Fatalf("expected the names of ten metrics or more, got %v", metrics)
	}
	rows := rowsOf(t, tablesOf(sectionOf(t, "docs/metrics.md", "## Metrics"))[0])
	sameNames(t, "metric", slices.Sorted(maps.Keys(rows)), metrics)
	for _, r := range resourcesOf(t) {
		if asked := alarmedPattern.FindStringSubmatch(r.properties); asked != nil && rows[asked[1]] == nil {
			t.Errorf("%s uses the metric %s, which the page does not have", r.name, asked[1])
		}
	}
}

// settingPattern finds the constants that name environment variables.
var settingPattern = regexp.MustCompile(`= "((?:SETTLE|OTEL)_[A-Z_]+)"`)

func TestTheSettingsPageHasEachVariable(t *testing.T) {
	t.Parallel()
	var settings []string
	for _, file := range []string{"runtime/host/settings.go", "runtime/host/record.go", "machines/samples/settings.go"} {
		for _, found := range settingPattern.FindAllStringSubmatch(read(t, file), -1) {
			settings = append(settings, found[1])
		}
	}
	if len(settings) < 20 {
		t.Fatalf("expected 20 settings or more, got %v", settings)
	}
	rows := rowsOf(t, tablesOf(sectionOf(t, "docs/settings.md", "## Environment variables"))[0])
	sameNames(t, "setting", slices.Sorted(maps.Keys(rows)), settings)
	for name, function := range functions(t) {
		for variable := range function.Environment {
			if row := rows[variable]; row != nil && !strings.Contains(row[1], name) && !strings.Contains(row[1], "all") {
				t.Errorf("%s is set for %s, but the page lists it for%s", variable, name, row[1])
			}
		}
	}
}

// functions returns the functions as the template deploys them.
func functions(t *testing.T) map[string]infra.Function {
	t.Helper()
	deployed, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	return deployed
}

// actionPattern matches an action in a row. In a list of actions of one service, only the first action has the
// service's prefix.
var actionPattern = regexp.MustCompile(`^(?:([a-z]+):)?([A-Z]\w+)$`)

func TestTheSecurityPageSaysWhatFunctionsMay(t *testing.T) {
	t.Parallel()
	deployed := functions(t)
	var named []string
	for _, row := range tablesOf(sectionOf(t, "docs/security.md", "## Roles"))[0] {
		name, service := strings.TrimSpace(row[0]), ""
		named = append(named, name)
		says := map[string]bool{}
		for _, word := range quoted(row[1]) {
			if found := actionPattern.FindStringSubmatch(word); found != nil {
				if found[1] != "" {
					service = found[1]
				}
				says[service+":"+found[2]] = true
			}
		}
		may := map[string]bool{"logs:CreateLogStream": true, "logs:PutLogEvents": true} // The text above the table grants these to all functions.
		maps.Copy(says, may)
		for _, statement := range deployed[name].Statements {
			for _, action := range statement.Actions {
				may[action] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(says)), slices.Sorted(maps.Keys(may)); !slices.Equal(got, want) {
			t.Errorf("%s: the page permits\n%v\nand the template\n%v", name, got, want)
		}
	}
	sameNames(t, "function", named, slices.Sorted(maps.Keys(deployed)))
}

// prefixes maps CloudFormation's service names to IAM's prefixes, if they differ in more than case.
var prefixes = map[string]string{"ApiGatewayV2": "apigateway", "StepFunctions": "states"}

func TestTheDeployPageSaysWhatIsInTheStack(t *testing.T) {
	t.Parallel()
	const page = "docs/deploy.md"
	counts := map[string]int{}
	for _, r := range resourcesOf(t) {
		counts[r.kind]++
	}
	rows, needed := rowsOf(t, tablesOf(sectionOf(t, page, "## Resources"))[0]), quoted(sectionOf(t, page, "## Permissions for deploying"))
	sameNames(t, "type", slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(counts)))
	for kind, row := range rows {
		if got := strings.TrimSpace(row[1]); got != strconv.Itoa(counts[kind]) {
			t.Errorf("%s: the page counts %s, and the template has %d", kind, got, counts[kind])
		}
		service := strings.Split(kind, "::")[1]
		if prefix := cmp.Or(prefixes[service], strings.ToLower(service)); !slices.Contains(needed, prefix) {
			t.Errorf("the page lists no %s permissions, which deploying %s requires", prefix, kind)
		}
	}
	tables := tablesOf(sectionOf(t, page, "## With the aws CLI"))
	sameNames(t, "parameter", slices.Sorted(maps.Keys(rowsOf(t, tables[1]))), keysOf(t, "Parameters"))
	sameNames(t, "output", slices.Sorted(maps.Keys(rowsOf(t, tables[2]))), keysOf(t, "Outputs"))
	for name := range rowsOf(t, tables[0]) {
		if makefile := read(t, "Makefile"); !strings.Contains(makefile, name+"='$("+name+")'") {
			t.Errorf("the Makefile does not pass %s to infra/deploy.sh", name)
		}
	}
}

func TestTheDeployPageHasEachFieldOfProps(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(read(t, "infra/cdk/props.go"), "type Props struct {\n")
	text, _, _ = strings.Cut(text, "\n}\n")
	var fields []string
	for _, found := range regexp.MustCompile(`(?m)^\t([A-Z]\w+) `).FindAllStringSubmatch(text, -1) {
		fields = append(fields, found[1])
	}
	if len(fields) < 10 {
		t.Fatalf("expected ten fields or more in infra/cdk/props.go, got %v", fields)
	}
	rows := rowsOf(t, tablesOf(sectionOf(t, "docs/deploy.md", "## With CDK"))[0])
	sameNames(t, "field of Props", slices.Sorted(maps.Keys(rows)), fields)
}

// The CDK construct refuses the base paths that the gateway refuses at its start. The construct is in a module of its
// own, so it has a copy of the API's paths.
func TestTheConstructKnowsThePathsOfTheAPI(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile("apiPath = regexp.MustCompile\\(`(.*)`\\)").FindStringSubmatch(read(t, "infra/cdk/props.go"))
	if found == nil {
		t.Fatal("expected apiPath in infra/cdk/props.go")
	}
	apiPath := regexp.MustCompile(found[1])
	routes := regexp.MustCompile(`"(/[a-z.]+)[/"]`).FindAllStringSubmatch(read(t, "runtime/gateway/routes.go"), -1)
	if len(routes) < 5 {
		t.Fatalf("expected five paths or more in runtime/gateway/routes.go, got %v", routes)
	}
	for _, route := range routes {
		if !apiPath.MatchString(route[1]) {
			t.Errorf("expected apiPath to match %s, got %s", route[1], apiPath)
		}
	}
}
