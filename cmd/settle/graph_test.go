package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestGraphDrawsAMachineAndThePathOfAnInstance(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled")
		chart, marked := u.must("graph", "signup", "--format", "svg"), u.must("graph", "--local", "signup/1", "--format", "svg")
		contains(u.t, chart, "<svg ", ` id="state:unverified.awaiting_verification" `, ` id="edge:new&gt;unverified" `)
		contains(u.t, marked, `active visited settled" id="state:unverified.awaiting_verification" `, ` taken" id="edge:new&gt;unverified" `,
			` taken" id="edge:unverified.registering&gt;unverified.awaiting_verification" `)
		if strings.Contains(chart, ` taken"`) {
			u.t.Errorf("expected no path of an instance, got\n%s", chart)
		}
	})
}

func TestGraphOpensTheDrawing(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	var opened string
	got := u.runAs(command.Process{Open: func(path string) error { opened = path; return nil }}, "graph", "signup", "--open")
	if got.code != command.ExitDone || got.out != opened+"\n" {
		t.Errorf("expected the path of the file that was opened, %q, got %+v", opened, got)
	}
	content, err := os.ReadFile(opened)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(opened); err != nil {
		t.Error(err)
	}
	if want := u.must("graph", "signup", "--format", "svg"); string(content) != want || filepath.Ext(opened) != ".svg" {
		t.Errorf("expected the drawing in %s, got %s", opened, content)
	}

	failing := func(path string) error { return errors.Join(errors.New("no browser"), os.Remove(path)) }
	got = u.runAs(command.Process{Open: failing}, "graph", "signup", "--open")
	if got.code != command.ExitFailed || !strings.Contains(got.err, "opening the browser: no browser; the drawing is in ") {
		t.Errorf("expected the error and the path, got %+v", got)
	}
}

func TestGraphDrawsOnlyCharts(t *testing.T) {
	t.Parallel()
	u := user{t: t, config: commandOf(stateful("other", statechart.NoPayload()))}
	got := u.run("graph", "other", "--format", "svg")
	if want := "expected a chart of runtime/statechart, got another kind of machine; settle graph other --format mermaid prints its diagram"; got.code != command.ExitFailed || !strings.Contains(got.err, want) {
		t.Errorf("expected %q, got %+v", want, got)
	}
	contains(t, u.must("graph", "other", "--format", "mermaid"), "stateDiagram-v2\n")
}
