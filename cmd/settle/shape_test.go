package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
)

// shape returns a value reduced to its keys and the kinds of their values. The elements of a list are merged. Values
// from a chart or a producer become "anything".
func shape(value any) any {
	switch v := value.(type) {
	case map[string]any:
		keys := map[string]any{}
		for key, value := range v {
			if key == "context" || key == "body" || key == "value" || key == "before" || key == "after" && len(v) < 4 {
				keys[key] = "anything"
			} else {
				keys[key] = shape(value)
			}
		}
		return keys
	case []any:
		var all any = "nothing"
		for _, element := range v {
			all = together(all, shape(element))
		}
		return []any{all}
	default:
		return fmt.Sprintf("%T", value)
	}
}

// together merges two shapes.
func together(a, b any) any {
	if a == "nothing" {
		return b
	}
	keys, ok := a.(map[string]any)
	others, both := b.(map[string]any)
	if !ok || !both {
		return a
	}
	for key, value := range others {
		if _, known := keys[key]; !known {
			keys[key] = value
		}
	}
	return keys
}

// shapeOf returns the shape of one JSON value or of several lines of JSON.
func shapeOf(t *testing.T, where, text string) any {
	t.Helper()
	var lines []any
	for decoder := json.NewDecoder(bytes.NewBufferString(text)); ; {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v in:\n%s", where, err, text)
		}
		lines = append(lines, value)
	}
	if len(lines) == 1 {
		return shape(lines[0])
	}
	return shape(lines).([]any)[0]
}

// documented returns the shapes of the JSON in the reference, by command.
func documented(t *testing.T) map[string]any {
	t.Helper()
	shapes := map[string]any{}
	for section := range strings.SplitSeq(reference(t), "\n## settle ") {
		name, rest, _ := strings.Cut(section, "\n")
		if _, example, ok := strings.Cut(rest, "```json\n"); ok {
			example, _, _ = strings.Cut(example, "\n```")
			shapes[name] = shapeOf(t, "settle "+name, example)
		}
	}
	return shapes
}

// shapes compares the JSON that commands write to a pipe with the shapes documented in the reference.
type shapes struct {
	want    map[string]any
	checked map[string]bool
}

// check runs a command line of the named command, checks the shape of its output, and returns the output.
func (s shapes) check(u user, name, line string) string {
	u.t.Helper()
	got := u.runAs(command.Process{}, strings.Fields(line)...)
	s.checkText(u.t, name, got.out)
	return got.out
}

func (s shapes) checkText(t *testing.T, name, text string) {
	t.Helper()
	s.checked[name] = true
	actual := shapeOf(t, name, text)
	if name == "list" { // The listed instances have the shape that get prints.
		instances := actual.(map[string]any)["instances"].([]any)
		if !reflect.DeepEqual(instances[0], s.want["get"]) {
			t.Errorf("list: expected instances of the shape\n%v\nas settle get shows them, got\n%v", s.want["get"], instances[0])
		}
		instances[0] = "nothing"
	}
	if !reflect.DeepEqual(actual, s.want[name]) {
		t.Errorf("settle %s: expected the shape of the reference,\n%v\ngot\n%v\nof %s", name, s.want[name], actual, text)
	}
}

func TestCLIDocumentsTheJSONOfEachCommand(t *testing.T) {
	t.Parallel()
	s := shapes{documented(t), map[string]bool{}}
	withStack(t, s.checkSignUps)
	w := &work{toil: time.Second}
	withWork(t, w, func(u user) { s.checkWork(u, w) })
	withStack(t, func(u user) { s.check(u, "bench", "bench --local --events 5") })
	withClock(t, settle(), func(u user) { s.check(u, "clock", "clock advance 72h") })
	got := user{t: t}.runWith(`{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`, "simulate", "signup")
	s.checkText(t, "simulate", strings.SplitN(got.out, "\n", 2)[1])
	recording := `{"settle_recording": 1}` + "\n" + `{"instance": "signup/1", "steps": [{"type": "settle.start", "outcome": {"state": ["old"]}}]}` + "\n" + `{"settle_recording_runs": 1}`
	s.checkText(t, "replay", user{t: t}.runAs(command.Process{In: strings.NewReader(recording)}, "replay", "-").out)
	if !maps.EqualFunc(s.want, s.checked, func(any, bool) bool { return true }) {
		t.Errorf("expected the reference to show the JSON of the tested commands %v, got %v",
			slices.Sorted(maps.Keys(s.checked)), slices.Sorted(maps.Keys(s.want)))
	}
}

func (s shapes) checkSignUps(u user) {
	for _, id := range []string{"1", "2", "3"} {
		u.must("send", "--local", "signup/"+id, "SIGN_UP", "email=ada@example.com", "name=Ada")
	}
	s.check(u, "get", "get --local signup/1")
	s.check(u, "list", "list --local --machine signup --limit 1")
	s.check(u, "graph", "graph")
	u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
	s.check(u, "history", "history --local signup/1")
	s.check(u, "rearm", "rearm --local signup/1")
	s.check(u, "send", "send --local signup/2 CANCEL --wait done")
	u.must("send", "--local", "signup/4", "SIGN_UP", "email=ada@example.com", "name=Ada")
	s.check(u, "stop", "stop --local signup/4 --reason asked")
	s.check(u, "forget", "forget --local signup/4 --yes --reason asked")
	s.check(u, "export", "export --local --status done")
	s.checkBackup(u)
	journal := " --local --machine signup --yes --journal " + filepath.Join(u.t.TempDir(), "journal")
	s.check(u, "bulk", "bulk resume"+journal)
	s.check(u, "bulk forget", "bulk forget"+journal)
	u.put("signup/1", "wrong", `{"type": "VERIFY", "$id": "verify-1"}`)
	time.Sleep(time.Minute)
	var parked []parkedEvent
	unmarshal(u.t, []byte(s.check(u, "dlq list", "dlq list --local")), &parked)
	s.check(u, "dlq show", "dlq show --local "+parked[0].MessageID)
	s.check(u, "dlq redrive", "dlq redrive --local --all")
	s.check(u, "dlq drop", "dlq drop --local --all --yes")
	u.edit("signup/3", "value", &types.AttributeValueMemberS{Value: "gone"})
	s.check(u, "check", "check --local --status active")
	u.edit("signup/3", "value", &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"unverified": &types.AttributeValueMemberS{Value: "awaiting_verification"}}})
	u.config = movedSignUp()
	s.check(u, "migrate", "migrate --local --dry-run")
}

// checkBackup checks the line of an alias, because the attributes of other items depend on their machine.
func (s shapes) checkBackup(u user) {
	saved := u.saved("settle.jsonl")
	s.check(u, "import", "import --local "+saved+" --yes")
	u.edit("alias/job-7", "alias_of", &types.AttributeValueMemberS{Value: "relay/1"})
	u.edit("alias/job-7", "created_at", &types.AttributeValueMemberS{Value: "2026-01-02T15:04:05.000Z"})
	for line := range strings.Lines(u.run("backup", "--local").out) {
		if strings.Contains(line, "alias/job-7") {
			s.checkText(u.t, "backup", line)
		}
	}
}

func (s shapes) checkWork(u user, w *work) {
	w.broken.Store(true)
	u.must("send", "--local", "work/1", "START")
	time.Sleep(time.Hour)
	w.broken.Store(false)
	s.check(u, "resume", "resume --local work/1")
	u.must("send", "--local", "work/1", "START", "--wait", "rested")
	ended := make(chan answer, 1)
	go func() { ended <- u.runAs(command.Process{}, "watch", "--local", "work/1") }()
	time.Sleep(time.Second)
	u.must("send", "--local", "work/1", "FINISH")
	s.checkText(u.t, "watch", (<-ended).out)
}
