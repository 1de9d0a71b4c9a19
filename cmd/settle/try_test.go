package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// Payload types of machines for which dev has no example.
type (
	lendRequest struct {
		Title   string `json:"title"`
		Copies  int    `json:"copies"`
		Renewed bool   `json:"renewed"`
		Reader  struct {
			Name string `json:"name"`
		} `json:"reader"`
		Note string `json:"note,omitempty"`
	}
	// openVault has a string that dev cannot generate.
	openVault struct {
		Code  string `json:"code"`
		Tries int    `json:"tries"`
	}
	// reach requires one of two optional keys.
	reach struct {
		Mail  string `json:"mail,omitempty"`
		Phone string `json:"phone,omitempty"`
	}
	// opaque has its own decoding method.
	opaque struct{}
)

func (r lendRequest) Validate() error {
	if r.Title == "" || r.Copies == 0 || !r.Renewed || r.Reader.Name == "" || r.Note != "" {
		return errors.New("expected all but a note")
	}
	return nil
}

func (openVault) Validate() error { return errors.New("expected a code of 4 digits") }

func (r reach) Validate() error {
	if r.Mail == "" && r.Phone == "" {
		return errors.New("expected a mail address or a telephone number")
	}
	return nil
}

func (opaque) UnmarshalJSON([]byte) error {
	return errors.New("expected keys that only this type knows")
}

// small returns a machine that goes from its first to its last state on any event not named "idle".
func small(id string, version int, payloads statechart.Payloads) durable.Machine {
	type none struct{}
	var on []statechart.Transition[none]
	for _, event := range payloads.Types() {
		if event != "idle" {
			on = append(on, statechart.Transition[none]{Event: event, Target: "last"})
		}
	}
	return durable.Host(statechart.Must(statechart.Definition[none]{
		ID: id, Version: version, Initial: "first", Payloads: payloads,
		States: []statechart.State[none]{{ID: "first", Tags: []string{statechart.Settled}, On: on}, {ID: "last", Type: statechart.Final}},
	}), durable.MachineConfig{})
}

// stateful returns a machine of the library stateless.
func stateful(id string, payload statechart.Payload) durable.Machine {
	type none struct{}
	machine := statelesshost.NewStateMachine()
	machine.Configure("first").Permit("request", "last")
	machine.Configure("last")
	return statelesshost.Must(statelesshost.Config[none]{
		ID: id, Version: 1, Initial: "first", Machine: machine,
		States: []statelesshost.State[none]{{State: "first", Tags: []string{statechart.Settled}}, {State: "last", Final: true}},
		Events: map[string]statelesshost.Event{"request": {Payload: payload}},
	})
}

func commandOf(machines ...durable.Machine) command.Config {
	return command.Config{Machines: func(command.Environment) []durable.Machine { return machines }}
}

// line returns the line of a text that contains a word.
func line(t *testing.T, text, word string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("expected a line with %q, got:\n%s", word, text)
	return ""
}

// words splits a line as a shell does.
func words(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// TestEventSuggestedByDevIsAccepted runs the commands that dev prints for machines without an example.
func TestEventSuggestedByDevIsAccepted(t *testing.T) {
	t.Parallel()
	shipped := settle()
	shipped.Dev.Example = command.Example{}
	payloads := func(event string, payload statechart.Payload) statechart.Payloads {
		return statechart.Payloads{event: payload}
	}
	for name, c := range map[string]struct {
		config command.Config
		sends  string
	}{
		"all kinds of values": {
			commandOf(small("loan", 1, payloads("REQUEST", statechart.PayloadOf[lendRequest]()))),
			`loan/42 REQUEST title=title copies:=1 renewed:=true 'reader:={"name":"name"}'`,
		},
		"optional fields, one of them required": {
			commandOf(small("call", 1, payloads("REACH", statechart.PayloadOf[reach]()))), "call/42 REACH mail=mail phone=phone",
		},
		"no payload":             {commandOf(small("lamp", 1, payloads("PRESS", statechart.NoPayload()))), "lamp/42 PRESS"},
		"a machine of stateless": {commandOf(stateful("old", statechart.PayloadOf[lendRequest]())), `old/42 request title=title copies:=1 renewed:=true 'reader:={"name":"name"}'`},
		"a map":                  {commandOf(small("odd", 1, payloads("GO", statechart.PayloadOf[map[string]string]()))), "odd/42 GO key=key"},
		"a key that needs --json": {commandOf(small("odd", 1, payloads("GO", statechart.PayloadOf[struct {
			A string `json:"a=b"`
		}]()))), `odd/42 GO --json '{"a=b":"a=b"}'`},
		"another event than the first":    {commandOf(small("a", 1, statechart.Payloads{"A": statechart.PayloadOf[openVault](), "B": statechart.NoPayload()})), "a/42 B"},
		"another machine than the first":  {commandOf(small("a", 1, payloads("A", statechart.PayloadOf[openVault]())), small("b", 1, payloads("B", statechart.NoPayload()))), "b/42 B"},
		"an event not for producers":      {commandOf(small("a", 1, statechart.Payloads{durable.TokenExpired: statechart.NoPayload(), "z": statechart.NoPayload()})), "a/42 z"},
		"this module's, without examples": {shipped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := startDevOf(t, c.config)
			go func() {
				for range dev.screen.lines { // Unread output would block dev.
				}
			}()
			welcome := strings.Join(dev.welcome, "\n")
			sends := line(t, welcome, " send --local ")
			if !strings.HasSuffix(sends, " send --local "+c.sends) && c.sends != "" {
				t.Errorf("expected %s, got %s", c.sends, sends)
			}
			_, arguments, _ := strings.Cut(sends, " settle ")
			if code, said := dev.settle(t, words(t, arguments)...); code != command.ExitDone || said != "" {
				t.Errorf("%s: expected exit code 0 and nothing on standard error, got %d and %q", sends, code, said)
			}
			body := words(t, strings.TrimPrefix(line(t, welcome, "-d '{"), "-d "))[0]
			if other := words(t, strings.TrimPrefix(line(t, welcome, "--message-body"), "--message-body "))[0]; other != body {
				t.Errorf("expected the same event for curl and for the aws CLI, got %s and %s", body, other)
			}
			_, address, _ := strings.Cut(line(t, welcome, "curl -i "), "curl -i ")
			answer, err := tryRequest(t.Context(), http.MethodPost, strings.TrimSuffix(address, ` \`), body, http.StatusAccepted)
			if err != nil {
				t.Errorf("%s: %v (%s)", body, err, answer)
			}
			dev.end(t)
		})
	}
}

// TestDevMarksValuesThatTheUserMustFillIn has machines that refuse every generated payload.
func TestDevMarksValuesThatTheUserMustFillIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload          statechart.Payload
		sends, body, why string
	}{
		"a struct": {
			statechart.PayloadOf[openVault](), "vault/42 OPEN code=... tries:=...", `{"type":"OPEN","code":...,"tries":...}`,
			`no generated payload is valid for vault (wrong payload: event "OPEN" of chart vault: expected a code of 4 digits).`,
		},
		"a type of its own": {
			statechart.PayloadOf[opaque](), "vault/42 OPEN key=...", `{"type":"OPEN","key":...}`, `the JSON of a main.opaque`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := startDevOf(t, commandOf(small("vault", 1, statechart.Payloads{"OPEN": c.payload, "idle": statechart.NoPayload()})))
			welcome := strings.Join(dev.welcome, "\n")
			contains(t, welcome, "Replace ... with values of your own: no generated payload is valid for vault", c.why,
				" send --local "+c.sends+"\n", "--message-body '"+c.body+"'\n", "-d '"+c.body+"'\n")
			if json.Valid([]byte(c.body)) {
				t.Errorf("expected an event with placeholders, got %s", c.body)
			}
			dev.end(t)
		})
	}
}

// shown is a payload with its own and embedded keys.
type shown struct {
	Title string `json:"title"`
	shownBy
}

type shownBy struct {
	Reader string `json:"reader"`
}

func TestSendNamesIgnoredKeys(t *testing.T) {
	t.Parallel()
	one := func(payload statechart.Payload) []durable.Machine {
		return []durable.Machine{small("loan", 2, statechart.Payloads{"REQUEST": payload})}
	}
	older := small("loan", 1, statechart.Payloads{"REQUEST": statechart.PayloadOf[struct{ Extra int }]()})
	for name, c := range map[string]struct {
		machines []durable.Machine
		keys     []string
		want     string
	}{
		"one": {one(statechart.PayloadOf[shown]()), []string{"title=M", "extra=1"}, "settle: warning: unknown payload keys are ignored: \"extra\"; REQUEST takes the keys reader, title\n"},
		"two": {one(statechart.PayloadOf[shown]()), []string{"raeder=ada", `a"b:=1`}, "settle: warning: unknown payload keys are ignored: \"a\\\"b\", \"raeder\"; REQUEST takes the keys reader, title\n"},
		"in a list": {one(statechart.PayloadOf[struct {
			Lines []struct{ Price int } `json:"lines"`
		}]()), []string{`lines:=[{"price":1},{"prise":2}]`}, "settle: warning: unknown payload keys are ignored: \"prise\"; REQUEST takes the keys lines\n"},
		"none":                       {one(statechart.PayloadOf[shown]()), []string{"title=M", "reader=ada", "--id", "request-1"}, ""},
		"keys in another case":       {one(statechart.PayloadOf[shown]()), []string{"Title=M", "READER=ada"}, ""},
		"a payload without keys":     {one(statechart.PayloadOf[struct{}]()), []string{"title=M"}, "settle: warning: unknown payload keys are ignored: \"title\"; REQUEST takes no keys\n"},
		"a map":                      {one(statechart.PayloadOf[map[string]any]()), []string{"title=M"}, ""},
		"a type that decodes itself": {one(statechart.PayloadOf[json.RawMessage]()), []string{"title=M"}, ""},
		"an event without a payload": {one(statechart.NoPayload()), []string{"title=M"}, "settle: warning: unknown payload keys are ignored: \"title\"; REQUEST takes no keys\n"},
		"a key of an older version":  {append(one(statechart.PayloadOf[shown]()), older), []string{"title=M", "extra:=1"}, ""},
		"a key of no version":        {append(one(statechart.PayloadOf[shown]()), older), []string{"none=1"}, "settle: warning: unknown payload keys are ignored: \"none\"; REQUEST takes the keys Extra, reader, title\n"},
		"a machine of stateless":     {[]durable.Machine{stateful("loan", statechart.PayloadOf[shown]())}, []string{"extra=1"}, "settle: warning: unknown payload keys are ignored: \"extra\"; request takes the keys reader, title\n"},
		"a refused event":            {one(statechart.PayloadOf[openVault]()), []string{"kode=1"}, "settle: warning: unknown payload keys are ignored: \"kode\"; REQUEST takes the keys code, tries\nsettle: wrong payload: event \"REQUEST\" of chart loan: expected a code of 4 digits\n"},
		"with a reserved key":        {one(statechart.PayloadOf[shown]()), []string{"extra=1", "$task=1"}, "settle: the key \"$task\" is reserved for the runtime: of the keys that begin with $, producers may use $id\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, commandOf(c.machines...), func(u user) {
				event := c.machines[0].Events()[0]
				got := u.run(append([]string{"send", "--local", "loan/1", event}, c.keys...)...)
				if got.err != c.want {
					t.Errorf("expected %q, got %q", c.want, got.err)
				}
				if refused := strings.Contains(c.want, "$task") || strings.Contains(c.want, "wrong payload"); refused != (got.code == command.ExitRefused) || !refused && got.code != command.ExitDone {
					t.Errorf("got the exit code %d", got.code)
				}
			})
		})
	}
}
