package console_test

import (
	"encoding/json"
	"html"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/instances"
)

func TestATrialShowsTheResultAndSendsNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		try := func(event string, values ...string) string {
			got := w.post("instances/order/1/events/"+event, with(append(values, "do", "try")...), nil)
			if got.Code != 200 {
				t.Errorf("%s: got status %d", event, got.Code)
			}
			return got.Body.String()
		}
		page := try("CANCEL")
		contains(t, textOf(page), "Chart after the trial", "nothing was sent", "The instance would be in work.cancelled mood.calm", "left work.waiting", "entered work.cancelled", "timer stops reminder in work.waiting")
		if got := marksOf(t, page); !slices.Equal(got.Active, []string{"work.cancelled", "mood.calm"}) || !slices.Equal(got.Taken, []string{"work.waiting\nwork.cancelled\nCANCEL"}) {
			t.Errorf("got the marks %+v", got)
		}
		contains(t, textOf(try("CALL", "payload.loud", "true")), "entered mood.busy", "actions count", "Context after the event text \"two apples\" calls 1")
		contains(t, textOf(try("PLACE")), "The instance would ignore the event.")

		w.send("order/2", `{"type": "PLACE"}`)
		w.applied("nothing")
		contains(t, textOf(w.page("instances/order/1", 0)), "work.waiting mood.calm", "2 kept of 2", "calls 0")
	})
}

func TestATrialDoesNotRunServices(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.change("order/1", func(r *instances.Record) { // No transition leads back to the state `new`.
			var snapshot map[string]any
			if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
				t.Fatal(err)
			}
			snapshot["value"] = map[string]string{"work": "new", "mood": "calm"}
			delete(snapshot, "timers")
			var err error
			if r.Snapshot, err = json.Marshal(snapshot); err != nil {
				t.Fatal(err)
			}
			r.State = []string{"work.new", "mood.calm"}
		})
		page := w.post("instances/order/1/events/PLACE", with("do", "try", "payload.text", "x"), nil).Body.String()
		contains(t, textOf(page), "The instance would be in work.packing mood.calm", "actions keep", "service pack in work.packing starts. It was not called")
	})
}

func TestTheCommandOfAFormIsForAShell(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal("the test needs a POSIX shell, as make does: ", err)
	}
	var page string
	inWorld(t, func(c *console.Config) { c.Write.Command = "settle send --local" }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		page = w.post("instances/order/1/events/PLACE", with("do", "try", "id", "it's $HOME", "payload.text", `two "green" apples`, "payload.calls", "3"), nil).Body.String()
	})
	found := regexp.MustCompile(`data-copy="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no command in %s", textOf(page))
	}
	command := html.UnescapeString(found[1])
	contains(t, textOf(page), "Copy as settle send "+command)
	words, err := exec.CommandContext(t.Context(), shell, "-c", strings.Replace(command, "settle send", `printf '%s|'`, 1)).Output()
	if want := `--local|order/1|PLACE|text=two "green" apples|calls:=3|--id=it's $HOME|`; string(words) != want || err != nil {
		t.Errorf("got %s, %v for the command\n%s\nwant %s", words, err, command, want)
	}
}
