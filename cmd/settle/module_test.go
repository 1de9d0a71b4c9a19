package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
)

// lampModule has the files of another module: a machine, and a main that builds its command.
var lampModule = map[string]string{
	"go.mod": "module example.com/lamp\n\ngo 1.26\n\nrequire github.com/settle-run/settle v0.0.0\n\nreplace github.com/settle-run/settle => SETTLE\n",
	"main.go": `package main

import (
	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"

	"example.com/lamp/lamp"
)

func main() {
	command.Main(command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(lamp.New(), durable.MachineConfig{})}
	}})
}
`,
	"lamp/lamp.go": `package lamp

import "github.com/settle-run/settle/runtime/statechart"

type Context struct{}

func New() *statechart.Chart[Context] {
	type (
		state = statechart.State[Context]
		on    = statechart.Transition[Context]
	)
	settled := []string{statechart.Settled}
	return statechart.Must(statechart.Definition[Context]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"PRESS": statechart.NoPayload(), "BREAK": statechart.NoPayload()},
		States: []state{
			{ID: "off", Tags: settled, On: []on{{Event: "PRESS", Target: "on"}}},
			{ID: "on", Tags: []string{statechart.Settled, "bright"}, On: []on{{Event: "PRESS", Target: "off"}, {Event: "BREAK", Target: "broken"}}},
			{ID: "broken", Type: statechart.Final},
		},
	})
}
`,
}

// buildLamp builds the command of the module, and returns its path.
func buildLamp(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"go.sum": string(sums)}
	for name, text := range lampModule {
		files[name] = strings.ReplaceAll(text, "SETTLE", root)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "lamps")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", program, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	return program
}

func TestOtherModuleBuildsItsOwnCommand(t *testing.T) {
	t.Parallel()
	program := buildLamp(t)
	dev := newScreen(t.Context())
	data := t.TempDir()
	running := exec.CommandContext(t.Context(), program, "dev", "--aws-port", "0", "--http-port", "0", "--data", data)
	running.Stdout, running.Stderr = dev, dev
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	welcome := strings.Join(dev.await(t, "Each transition is printed below"), "\n")
	contains(t, welcome, "  machines lamp\n", " send --local lamp/42 PRESS\n", `--message-body '{"type":"PRESS"}'`,
		"run lamps dev with --data "+data+" again.")
	_, rest, _ := strings.Cut(welcome, "  AWS      ")
	aws, _, _ := strings.Cut(rest, " ")

	lamps := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		call := exec.CommandContext(t.Context(), program, args...)
		call.Dir = filepath.Dir(program) // This folder contains a folder named like the machine.
		call.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+aws)
		call.Stdout, call.Stderr = &out, &out
		if err := call.Run(); err != nil {
			t.Errorf("lamps %v: %v\n%s", args, err, out.String())
		}
		return out.String()
	}
	sent := make(chan string)
	go func() {
		sent <- lamps("send", "--local", "-o", "text", "lamp/1", "PRESS", "--wait", "bright", "--timeout", "1h")
	}()
	dev.await(t, "off → on  (revision 1)")
	contains(t, <-sent, "sent PRESS to lamp/1 as message ", "lamp/1 is in on, settled, revision 1\n")
	contains(t, lamps("get", "--local", "-o", "text", "lamp/1"), "next      BREAK, PRESS\n")
	contains(t, lamps("check", "--local", "-o", "text"), "lamp     1        active  on     1    0        0\n")
	contains(t, lamps("graph", "lamp"), "  off --> on : PRESS\n")
	contains(t, lamps("graph", "lamp", "--format", "xstate"), `  "id": "lamp",`, `"PRESS": {`)
	contains(t, lamps("simulate", "lamp"), `"event":{"type":"xstate.init"},"handled":true,"value":"off"`)
	contains(t, lamps("--help"), "  dev ", "  dlq list ")
	if err := running.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	go func() {
		for range dev.lines { // until the output ends
		}
	}()
	if err := running.Wait(); err != nil {
		t.Errorf("expected dev to stop without an error, got %v", err)
	}
	_ = dev.Close() // A pipe's Close returns no error.

	// The command of this repository does not know the machine.
	if got := (user{t: t}).run("graph", "lamp"); got.code != command.ExitNotFound {
		t.Errorf("expected exit code 3 of the command without the lamp, got %+v", got)
	}
}
