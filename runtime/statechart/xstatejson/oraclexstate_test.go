package xstatejson_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// patch replaces text in XState's source.
type patch struct {
	Find    string `json:"find"`
	Replace string `json:"replace"`
}

// xstate is a Node process that runs machines on XState.
type xstate struct {
	in  io.WriteCloser
	out *bufio.Reader
	mu  sync.Mutex
	// parity, if set, gives every name of a config an implementation: see anyName.
	parity *int
}

func startXState(t *testing.T) *xstate {
	t.Helper()
	if _, err := os.Stat("testdata/npm/node_modules/xstate"); os.IsNotExist(err) && os.Getenv("CI") == "" {
		t.Skip("XState is not installed: `make test` installs it")
	}
	in, out := startNode(t, "testdata/driver.cjs")
	return &xstate{in: in, out: out}
}

// startNode starts a program in Node that answers each line with a line.
func startNode(t *testing.T, program string) (io.WriteCloser, *bufio.Reader) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "node", program)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = command.Wait() })
	return in, bufio.NewReaderSize(out, 1<<20)
}

func (x *xstate) ask(request any) (answer, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	line, err := json.Marshal(request)
	if err != nil {
		return answer{}, err
	}
	if _, err := x.in.Write(append(line, '\n')); err != nil {
		return answer{}, err
	}
	text, err := x.out.ReadBytes('\n')
	if err != nil {
		return answer{}, err
	}
	var got answer
	err = json.Unmarshal(text, &got)
	return got, err
}

func (x *xstate) run(config []byte, events []any, patches []patch) (answer, error) {
	request := map[string]any{"config": json.RawMessage(config), "events": events, "patches": append([]patch{}, patches...)}
	if x.parity != nil {
		request["parity"] = *x.parity
	}
	return x.ask(request)
}

// differs describes the first difference between two answers, or returns "".
func differs(ours, theirs answer) string {
	for i := range max(len(ours.Steps), len(theirs.Steps)) {
		if i >= len(ours.Steps) || i >= len(theirs.Steps) {
			break
		}
		a, b := ours.Steps[i], theirs.Steps[i]
		switch {
		case !reflect.DeepEqual(a.Value, b.Value), !slices.Equal(a.Log, b.Log), !slices.Equal(a.Tags, b.Tags), a.Status != b.Status:
			return fmt.Sprintf("step %d:\n  ours   %s\n  XState %s", i, text(a), text(b))
		}
	}
	if ours.Error != "" || theirs.Error != "" {
		return fmt.Sprintf("errors: ours %q, XState %q", ours.Error, theirs.Error)
	}
	if len(ours.Steps) != len(theirs.Steps) {
		return fmt.Sprintf("%d steps and %d", len(ours.Steps), len(theirs.Steps))
	}
	return ""
}
