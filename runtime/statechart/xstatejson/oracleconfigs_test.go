package xstatejson_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

var writeConfigs = flag.Bool("configs", false, "write the tables of docs/charts/xstate-configs.md")

// source is a set of configs in npm packages.
type source struct {
	Name  string   `json:"name"`
	Files []string `json:"files"`
	// Index is set if the tests import XState from its source code.
	Index bool `json:"index,omitempty"`
	// Texts is set if the configs are in code that is quoted in strings and Markdown.
	Texts bool `json:"texts,omitempty"`
	// Methods is set if methods of exported classes make the machines.
	Methods bool `json:"methods,omitempty"`
}

var sources = []source{
	{Name: "`@ledgerhq/device-management-kit` 1.10.0", Files: []string{"node_modules/@ledgerhq/device-management-kit/lib/cjs/src/api"}, Methods: true},
	{Name: "`@clerk/elements` 0.24.20", Files: []string{"node_modules/@clerk/elements/dist/react"}},
	{Name: "tests of `@xstate/machine-extractor` 0.16.0", Files: []string{"node_modules/@xstate/machine-extractor/src"}, Texts: true},
	{Name: "examples in `@xstate/cli` 0.5.17", Files: []string{"node_modules/@xstate/cli/src/__tests__/__examples__"}},
	{Name: "examples in `@xstate/tools-shared` 4.1.0", Files: []string{"node_modules/@xstate/tools-shared/src/__tests__/__examples__"}},
	{Name: "tests of `xstate` 4.0.0-0", Files: []string{"node_modules/xstate-4/test"}, Index: true},
	{Name: "docs of `xstate` 4.0.0-0", Files: []string{"node_modules/xstate-4/docs"}, Texts: true},
}

// extractConfigs returns the distinct configs of a source.
func extractConfigs(t *testing.T, from source) [][]byte {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "node", "testdata/extract.cjs", text([]source{from})).Output()
	if err != nil {
		t.Fatal(err)
	}
	var configs [][]byte
	seen := map[string]bool{}
	for line := range bytes.Lines(output) {
		var found struct{ Config json.RawMessage }
		if err := json.Unmarshal(line, &found); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if !seen[string(found.Config)] {
			seen[string(found.Config)] = true
			configs = append(configs, found.Config)
		}
	}
	return configs
}

// anyName implements every name of a config, as testdata/driver.cjs does. A guard holds if the sum of the parity and of
// the characters of the guard's name is even.
func anyName(parity int) xstatejson.Implementations[counter] {
	return xstatejson.Implementations[counter]{
		Context: func(statechart.Start) counter { return counter{} },
		Otherwise: xstatejson.Otherwise[counter]{
			Action: func(name string, _ json.RawMessage) (statechart.Action[counter], error) {
				return notes(func(statechart.Event) string { return name }), nil
			},
			Guard: func(name string, _ json.RawMessage) (statechart.Guard[counter], error) {
				sum := parity
				for _, r := range name {
					sum += int(r)
				}
				return statechart.If("", func(counter) bool { return sum%2 == 0 }), nil
			},
			Service: func(string, json.RawMessage) (statechart.Service[counter], error) {
				return statechart.ServiceFunc("", func(context.Context, counter, statechart.Call) (json.RawMessage, error) { return nil, nil }), nil
			},
			Delay: func(string) (func(counter, statechart.Event) time.Duration, error) {
				return func(counter, statechart.Event) time.Duration { return 30 * time.Millisecond }, nil
			},
		},
	}
}

// tryConfig also returns these verdicts.
const (
	refused    = "refused" // by XState
	unread     = "unread"
	uncompiled = "uncompiled"
)

// tryConfig reads a config, and runs it on both engines for each parity of anyName. why explains verdicts other than
// "agree".
func tryConfig(oracle *xstate, config []byte, seed uint64) (verdict, why string, err error) {
	theirs, err := oracle.ask(map[string]any{"config": json.RawMessage(config), "shape": true})
	if err != nil {
		return "", "", err
	}
	verdict = agrees
	for parity := range 2 {
		def, err := xstatejson.Read(config, anyName(parity))
		if theirs.Error != "" {
			if err == nil {
				_, err = xstatejson.Foreign(def)
			}
			if err == nil {
				return differing, "XState refuses the config: " + theirs.Error, nil
			}
			return refused, "", nil
		}
		var unreadable *xstatejson.Error
		if errors.As(err, &unreadable) {
			return unread, reason(unreadable.Problems[0]), nil
		}
		_, err = xstatejson.Foreign(def)
		var incorrect *statechart.DefinitionError
		if errors.As(err, &incorrect) {
			return uncompiled, quotedText.ReplaceAllString(incorrect.Findings[0].Problem, "`...`"), nil
		}
		oracle.parity = &parity
		events := eventsFor(def, config, seed)
		found, difference, err := compare(oracle, config, events, play(def, events, true))
		oracle.parity = nil
		if err != nil || found == differing {
			return found, difference + "\nevents " + text(events), err
		}
		if found != agrees {
			verdict = found
		}
	}
	return verdict, "", nil
}

var quotedText = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// reason describes a problem without the values in the config.
func reason(p xstatejson.Problem) string {
	what, _, _ := strings.Cut(p.Text, ", ")
	if strings.HasPrefix(what, "is not ") {
		what, _, _ = strings.Cut("`"+p.Path[strings.LastIndexByte(p.Path, '.')+1:]+"` "+what, ":")
	}
	return quotedText.ReplaceAllString(what, "`...`")
}

// eventsFor draws events that a chart declares, times, and ends of its services.
func eventsFor(def statechart.Definition[counter], config []byte, seed uint64) []any {
	random := rand.New(rand.NewPCG(seed, 1))
	var types []string
	for typ := range def.Payloads {
		types = append(types, typ)
	}
	slices.Sort(types)
	var events []any
	for range 25 {
		switch n := random.IntN(len(types) + 2); {
		case n < len(types) && types[n] == "xstate.route":
			to := routeIDs(config)
			events = append(events, map[string]any{"type": types[n], "to": "#" + to[random.IntN(len(to))]})
		case n < len(types):
			events = append(events, map[string]any{"type": types[n]})
		case n == len(types):
			events = append(events, map[string]any{"advance": []int{10, 30, 300, 2000}[random.IntN(4)]})
		default:
			events = append(events, map[string]any{"end": random.IntN(3) > 0})
		}
	}
	return events
}

// routeIDs returns the strings under "id" in a config, and an ID that it does not have.
func routeIDs(config []byte) []string {
	ids := []string{"none"}
	for _, match := range idText.FindAllSubmatch(config, -1) {
		ids = append(ids, string(match[1]))
	}
	return ids
}

var idText = regexp.MustCompile(`"id":\s*"([^"]*)"`)

// TestFormsOfConfigsRunAsInXState runs configs with the forms that Read translates.
func TestFormsOfConfigsRunAsInXState(t *testing.T) {
	t.Parallel()
	oracle := startXState(t)
	for _, c := range []struct{ name, config, want string }{
		{"no states", `{"types":{},"entry":"enter","on":{"E":{"actions":"act"},"F":{"target":"#(machine)","reenter":true}},"after":{"30":{"actions":"late"}}}`, agrees},
		{"keys with spaces", `{"initial":"in progress","states":{"in progress":{"on":{"E":"v1\\.2","F":"a/b.x#y"}},"v1.2":{"tags":"t","on":{"E":"in progress"}},"a/b":{"initial":"z","states":{"z":{},"x#y":{"on":{"E":"#(machine).in progress"}}}}}}`, agrees},
		{"ID", `{"id":"My light","initial":"a","states":{"a":{"on":{"E":"#My light.b"}},"b":{"id":"i.d","on":{"E":"#My light"}},"c":{"on":{"E":"#i\\.d"}}},"on":{"F":".c"}}`, agrees},
		{"wildcards within", `{"initial":"a","states":{"a":{"on":{"a.*.b":"b","*.c":"b","a*":"b","a.b.c":{"actions":"act"},"a.*":{"actions":"any"}}},"b":{}},"on":{"a.d":{},"a":{}}}`, agrees},
		{"routes", `{"initial":"a","states":{"a":{"id":"r","route":{"actions":"go"},"initial":"x","states":{"x":{},"y":{"id":"s","route":{"guard":"even"}}},"on":{"E":"b"}},"b":{"entry":"enter","exit":"exit","route":{}},"c":{"id":"u","route":{},"on":{"*":{"guard":"odd!","actions":"any"}}}}}`, agrees},
		{"services", `{"initial":"a","states":{"a":{"invoke":{"src":"s","systemId":"x","onDone":"b","onError":{"target":"a","reenter":true}}},"b":{"invoke":{"id":"g","src":"s","onError":"a"},"on":{"xstate.done.actor.*":"a"}}}}`, agrees},
		{"failure without a transition", `{"initial":"a","states":{"a":{"invoke":{"src":"s","onDone":"b"}},"b":{"after":{"10":"a"}}}}`, "failures that no transition takes"},
		{"onSnapshot", `{"initial":"a","states":{"a":{"invoke":{"src":"s","onSnapshot":{"actions":"seen"},"onDone":"b","onError":"b"}},"b":{"on":{"E":"a"}}}}`, "snapshots of actors"},
		{"history", `{"initial":"a","states":{"a":{"initial":"x","states":{"x":{"on":{"E":"y"}},"y":{},"h":{"type":"history","entry":"never","tags":"never"}},"on":{"F":"b"}},"b":{"on":{"E":"a.h"}}}}`, agrees},
		{"empty on", `{"initial":"a","states":{"a":{"on":[],"after":{"30":"b"}},"b":{"on":{"E":"a."}}}}`, agrees},
	} {
		verdicts := map[string]bool{}
		for seed := range uint64(5) {
			verdict, why, err := tryConfig(oracle, []byte(c.config), seed)
			if err != nil {
				t.Fatal(err)
			}
			if verdict != agrees && verdict != c.want {
				t.Errorf("%s: %s, want %s: %s", c.name, verdict, c.want, why)
			}
			verdicts[verdict] = true
		}
		if !verdicts[c.want] {
			t.Errorf("%s: got %v, want %s", c.name, verdicts, c.want)
		}
	}
}

// TestConfigsInPackages reads and runs the configs in npm packages, and checks the tables of the page about them. With
// -short, it runs only the first packages.
func TestConfigsInPackages(t *testing.T) {
	t.Parallel()
	oracle := startXState(t)
	tried := sources
	if testing.Short() && !*writeConfigs {
		tried = sources[:2]
	}
	reasons, differences := map[string]int{}, map[string]int{}
	counts := []string{"| package | configs | refused by XState | unread | not compiled | run | agree | listed differences |\n|---|---|---|---|---|---|---|---|\n"}
	total := map[string]int{}
	row := func(name string, n map[string]int) {
		run := n["configs"] - n[refused] - n[unread] - n[uncompiled]
		counts = append(counts, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d |\n", name, n["configs"], n[refused], n[unread], n[uncompiled], run, n[agrees], run-n[agrees]))
	}
	for _, from := range tried {
		n := map[string]int{}
		for i, config := range extractConfigs(t, from) {
			verdict, why, err := tryConfig(oracle, config, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			n[verdict]++
			n["configs"]++
			switch verdict {
			case differing:
				t.Errorf("%s: %s\nconfig %s", from.Name, why, config)
			case unread, uncompiled:
				reasons[why]++
			case agrees, refused:
			default:
				differences[verdict]++
			}
		}
		row(from.Name, n)
		for verdict := range n {
			total[verdict] += n[verdict]
		}
	}
	if total[agrees] == 0 {
		t.Errorf("no config agrees: %v", total)
	}
	if len(tried) < len(sources) {
		return
	}
	row("all", total)
	for why, n := range reasons {
		if n == 1 && strings.Contains(why, "is not a key of") {
			delete(reasons, why)
			reasons["another unknown key"]++
		}
	}
	wantInPage(t, map[string]string{
		"packages": strings.Join(counts, ""), "reasons": countTable("reason", reasons), "differences": countTable("difference", differences),
	})
}

// countTable returns a table of counts, the highest first.
func countTable(what string, counts map[string]int) string {
	rows := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | configs |\n|---|---|\n", what)
	for _, name := range rows {
		fmt.Fprintf(&b, "| %s | %d |\n", name, counts[name])
	}
	return b.String()
}

// wantInPage checks that the page contains the tables, each under its name. With -configs, it writes them.
func wantInPage(t *testing.T, tables map[string]string) {
	t.Helper()
	const page = "../../../docs/charts/xstate-configs.md"
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written := string(read)
	for name, table := range tables {
		begin, end := "<!-- "+name+" -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(written, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("expected %s in %s", strings.TrimSpace(begin), page)
		}
		written = before + begin + table + end + after
	}
	if written == string(read) {
		return
	}
	if !*writeConfigs {
		t.Fatalf("%s shows other counts: run go test ./runtime/statechart/xstatejson -run TestConfigsInPackages -configs, and read the changes", page)
	}
	if err := os.WriteFile(page, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
}
