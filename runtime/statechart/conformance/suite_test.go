package conformance_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

const suite = "testdata/npm/node_modules/@scion-scxml/test-framework/test"

// casesWant is the number of cases in version 2.0.16 of the suite.
const casesWant = 316

// skipped lists the cases that do not run, with the reason.
var skipped = map[string]string{
	"w3c-ecma/test201.txml": "sends over HTTP, by the basic HTTP event processor, which is optional",
}

// manual lists the cases that a tester decides by reading the log. Their documents end in a state "final", but their
// scripts expect a state "pass" that does not exist. They run until nothing is pending. The test compares the final
// state and the log.
var manual = map[string]struct {
	// asks is what the document tells the tester to look for in the log.
	asks string
	log  []string
}{
	"w3c-ecma/test230.txml": {
		asks: "the invoked session gets the forwarded event as its parent got it, field by field",
		log:  slices.Concat(childToParent, childToParent),
	},
	"w3c-ecma/test250.txml": {
		asks: "the exit handlers of a cancelled session run, and it does not get to its final state",
		log:  []string{": Exiting sub01", ": Exiting sub0"},
	},
	"w3c-ecma/test307.txml": {
		asks: "a variable before its late binding and a part that a variable lacks are treated alike",
		log: []string{
			"entering s0 value of Var 1 is: undefined", "no error in s0: undefined",
			"entering s1, value of non-existent substructure of Var 1 is: undefined", "No error in s1: undefined",
		},
	},
}

// childToParent lists the lines that test230 logs for one event.
var childToParent = []string{
	"name is: childToParent", "type is: external", "sendid is: undefined",
	"origin is: #_scxml_w3c-ecma/test230.txml/1", "origintype is: " + scxmlProcessor, "invokeid is: s0.0", "data is: undefined",
}

type script struct {
	InitialConfiguration []string
	Events               []struct {
		After int // milliseconds
		Event struct {
			Name string
			Data json.RawMessage
		}
		NextConfiguration []string
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	var names []string
	err := filepath.WalkDir(suite, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".json"); ok && err == nil {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), suite+"/"))
		}
		return err
	})
	if os.IsNotExist(err) && os.Getenv("CI") == "" {
		t.Skip("the suite is not installed; make test installs it, or npm ci in testdata/npm")
	}
	if err != nil {
		t.Fatalf("reading the suite, which make test installs: %v", err)
	}
	if len(names) != casesWant {
		t.Errorf("found %d cases, want %d", len(names), casesWant)
	}
	passed, failed := 0, 0
	for _, name := range names {
		if skipped[name] != "" {
			continue
		}
		if t.Run(name, func(t *testing.T) { play(t, name) }) {
			passed++
		} else {
			failed++
		}
	}
	t.Logf("%d passed, %d failed, %d skipped of %d", passed, failed, len(names)-passed-failed, len(names))
}

// play runs a case: the document, then each event of its script.
func play(t *testing.T, name string) {
	t.Helper()
	dir := filepath.Join(suite, filepath.Dir(name))
	text, err := readFile(suite, name+".json")
	if err != nil {
		t.Fatal(err)
	}
	var script script
	if err := json.Unmarshal([]byte(text), &script); err != nil {
		t.Fatal(err)
	}
	if text, err = readFile(suite, name+".scxml"); err != nil {
		t.Fatal(err)
	}
	root, err := parseXML(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readDocument(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{name: name, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	h, err := w.start(d, nil, statechart.Invocation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if expected, ok := manual[name]; ok {
		if err := w.advance(time.Hour); err != nil {
			t.Fatal(err)
		}
		h.is(t, "at last", []string{"final"})
		if !slices.Equal(w.log, expected.log) {
			t.Errorf("%s: got the log %q, want %q", expected.asks, w.log, expected.log)
		}
		return
	}
	h.is(t, "at first", script.InitialConfiguration)
	for _, step := range script.Events {
		if err := w.advance(time.Duration(step.After) * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		event := statechart.Event{Type: step.Event.Name, Payload: &message{Kind: "external", Data: step.Event.Data}}
		if err := h.apply(event); err != nil {
			t.Fatal(err)
		}
		h.is(t, fmt.Sprintf("after %q", step.Event.Name), step.NextConfiguration)
	}
}

// is compares all active atomic states with the expected ones.
func (h *host) is(t *testing.T, when string, want []string) {
	t.Helper()
	var got []string
	for _, path := range h.snapshot.State() {
		got = append(got, h.document.ids[path])
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: got the configuration %v, want %v", when, got, want)
	}
}
