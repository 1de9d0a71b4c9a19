package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// commits is a store that calls `before` before each commit of an instance.
type commits struct {
	console.WriteStore
	before func(record instances.Record) error
}

func (s *commits) Commit(ctx context.Context, record instances.Record) error {
	if err := s.before(record); err != nil {
		return err
	}
	return s.WriteStore.Commit(ctx, record)
}

// committing returns a function that changes the configuration. Each commit of a bulk operation then calls `before` first.
func committing(before func(instances.Record) error) func(*console.Config) {
	return func(c *console.Config) { c.Write.Store = &commits{c.Write.Store, before} }
}

func TestAJobSkipsInstancesThatNoLongerMatch(t *testing.T) {
	t.Parallel()
	var w *world
	change := committing(func(record instances.Record) error {
		if record.Instance.ID == "01" && record.Status == statechart.Stopped {
			w.operate("order/02/operate/stop")
			w.send("order/03", `{"type": "CANCEL"}`)
		}
		return nil
	})
	inWorld(t, change, func(t *testing.T, made *world) {
		w = made
		w.places(4)
		contains(t, w.job("state=work.waiting&operation=stop"), "4 of 4 instances: 2 changed, 2 skipped, 0 failed.")
		for id, want := range map[string]string{"01": "settle.stop asked by mail", "02": "settle.stop ", "03": "CANCEL ", "04": "settle.stop asked by mail"} {
			history := w.record(id).History
			if last := history[len(history)-1]; len(history) != 3 || !strings.HasPrefix(last.Event+" "+last.Reason, want) {
				t.Errorf("%s: got the history %+v", id, history)
			}
		}
	})
}

// operate submits the form of an operation on one instance.
func (w *world) operate(path string, values ...string) {
	w.t.Helper()
	id := strings.Split(path, "/")[1]
	form := with(append([]string{"do", "operate", "revision", fmt.Sprint(w.record(id).Revision)}, values...)...)
	if got := w.post("instances/"+path+"?"+form.Encode(), form, nil); got.Code != http.StatusSeeOther {
		w.t.Errorf("%s: got status %d", path, got.Code)
	}
}

func TestAJobSkipsInstancesThatAreNoLongerFailed(t *testing.T) {
	t.Parallel()
	var w *world
	change := committing(func(record instances.Record) error {
		if record.Instance.ID == "01" {
			w.operate("order/02/operate/move", "state", "work.waiting")
		}
		return nil
	})
	inWorld(t, change, func(t *testing.T, made *world) {
		w = made
		w.places(3)
		w.send("order/01", `{"type": "CANCEL"}`)
		w.send("order/02", `{"type": "CANCEL"}`)
		contains(t, w.job("only=failed&operation=stop"), "2 of 2 instances: 1 changed, 1 skipped, 0 failed.")
	})
}

func TestAJobChangesAnInstanceOnceDespiteOtherWriters(t *testing.T) {
	t.Parallel()
	var w *world
	tries := map[string]int{}
	change := committing(func(record instances.Record) error {
		id := record.Instance.ID
		if tries[id]++; id == "01" && tries[id] == 1 || id == "02" {
			w.change("order/"+id, func(*instances.Record) {})
		}
		return nil
	})
	inWorld(t, change, func(t *testing.T, made *world) {
		w = made
		w.places(3)
		text := w.job("operation=stop")
		contains(t, text, "3 of 3 instances: 2 changed, 0 skipped, 1 failed.", "Failures 1 of 1 order/02 ")
		if got := fmt.Sprint(tries); got != "map[01:2 02:5 03:1]" {
			t.Errorf("got the tries %s", got)
		}
		if status := w.record("02").Status; status != statechart.Active {
			t.Errorf("the instance that always changes is %s", status)
		}
		if got := len(w.record("01").History); got != 3 {
			t.Errorf("got %d entries in the history of the instance that changed once", got)
		}
	})
}

func TestAJobListsFailuresAndGoesOn(t *testing.T) {
	t.Parallel()
	change := committing(func(record instances.Record) error {
		switch record.Instance.ID {
		case "01":
			return fmt.Errorf("storing: %w", durable.ErrUnstorable)
		case "02":
			panic("broken <b>decoder</b>")
		}
		return nil
	})
	inWorld(t, change, func(t *testing.T, w *world) {
		w.places(3)
		contains(t, w.job("operation=stop"), "1 changed, 0 skipped, 2 failed.", "Failures 2 of 2", "order/01 storing: ", "order/02 panic: ")
		contains(t, textOf(w.page("machines/order/bulk", 0)), "3 of 3, ended, 2 failed")
		// The moves fail in the chart, as the dry run predicts.
		contains(t, textOf(w.page("machines/order/bulk?operation=move&to=work.broken", 0)), "order/01 would fail: ", "out of paper")
		contains(t, w.job("operation=move&to=work.broken"), "0 changed, 0 skipped, 2 failed.", "out of paper")
	})
}

func TestAJobListsABoundedNumberOfFailures(t *testing.T) {
	t.Parallel()
	inWorld(t, committing(func(instances.Record) error { return durable.ErrUnstorable }), func(t *testing.T, w *world) {
		w.places(1)
		record := w.record("01")
		for i := range 104 {
			record.Instance.ID, record.Revision = fmt.Sprintf("copy-%03d", i), 1
			if err := w.store.Commit(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		contains(t, w.job("operation=keep"), "105 of 105 instances: 0 changed, 0 skipped, 105 failed.", "Failures 100 of 105")
		if took := time.Since(begun); took < 105*jobStep { // in virtual time
			t.Errorf("expected 105 instances in %s or more, got %s", 105*jobStep, took)
		}
	})
}

func TestAJobEndsWhenAWSDeniesItsChanges(t *testing.T) {
	t.Parallel()
	queue := &failing{}
	inWorld(t, func(c *console.Config) { queue.Queue, c.Write.Queue = c.Write.Queue, queue }, func(t *testing.T, w *world) {
		w.places(3)
		text := w.job("operation=move&to=work.packing")
		contains(t, text, "1 of 3 instances: 0 changed, 0 skipped, 1 failed.", "AWS denies the changes.", "order/01 The change is stored, but nothing wakes the instance", "Run settle resume order/01.")
		if got := w.record("02").State[0]; got != "work.waiting" {
			t.Errorf("got the state %s", got)
		}
	})
}

// gate lets a test hold a job at the commit of order/02.
type gate struct{ reached, open chan struct{} }

// holding returns a gate, and a change of the configuration that uses it.
func holding() (*gate, func(*console.Config)) {
	g := &gate{}
	var once sync.Once
	return g, func(c *console.Config) {
		g.reached, g.open = make(chan struct{}), make(chan struct{}) // in the bubble of the test
		committing(func(record instances.Record) error {
			if record.Instance.ID == "02" {
				once.Do(func() { close(g.reached) })
				<-g.open
			}
			return nil
		})(c)
	}
}

func TestAJobStopsBetweenTwoInstances(t *testing.T) {
	t.Parallel()
	g, change := holding()
	inWorld(t, change, func(t *testing.T, w *world) {
		w.places(4)
		_, location, _ := w.start("operation=stop")
		<-g.reached
		page := w.page(location, 0)
		contains(t, textOf(page), "1 of 4 instances: 1 changed", "About 120 ms left.", "20 percent done.", "Stop the job", "The job runs in the process of the console, and ends with it.")
		contains(t, page, `data-live="/console/live/`+location+`"`, `<progress aria-label="finished instances" max="4" value="1">`, `role="status" data-part="job-say"`)
		contains(t, textOf(w.page("machines/order", 0)), "Running: Stop · order · all instances · 1 of 4")
		for _, c := range []struct {
			path, do, token string
			status          int
		}{
			{location, "stop", "forged", 403}, {location, "start", "", 400}, {"jobs/1", "stop", w.tokenOf(location), 404}, {location, "stop", "", 303},
		} {
			form := with("do", c.do)
			if c.token != "" {
				form.Set("token", c.token)
			}
			if c.path == "jobs/1" {
				w.page(c.path, 404)
			}
			if got := w.post(c.path, form, nil); got.Code != c.status {
				t.Errorf("%+v: got status %d", c, got.Code)
			}
		}
		close(g.open)
		contains(t, w.ended(location), "2 of 4 instances: 2 changed, 0 skipped, 0 failed.", "The job was stopped.")
		if strings.Contains(w.page(location, 0), `value="stop"`) || strings.Contains(w.page("machines/order", 0), "Running:") {
			t.Error("the job has ended, and a page offers to stop it")
		}
		for id, want := range map[string]statechart.Status{"01": "stopped", "02": "stopped", "03": "active", "04": "active"} {
			if got := w.record(id).Status; got != want {
				t.Errorf("%s is %s, want %s", id, got, want)
			}
		}
		contains(t, textOf(w.page("machines/order/bulk?operation=stop", 0)), "read 2 active instances. Ended instances are skipped.")
		contains(t, w.job("operation=stop"), "2 of 2 instances: 2 changed") // The same operation continues.
	})
}

func TestAJobEndsWithTheServer(t *testing.T) {
	t.Parallel()
	g, change := holding()
	var shutdown context.CancelFunc
	inWorld(t, func(c *console.Config) {
		change(c)
		c.Write.Context, shutdown = context.WithCancel(context.Background())
	}, func(t *testing.T, w *world) {
		w.places(3)
		_, location, _ := w.start("operation=stop")
		<-g.reached
		shutdown()
		close(g.open)
		contains(t, w.ended(location), "2 of 3 instances: 2 changed")
	})
}

func TestOneJobRunsAtATime(t *testing.T) {
	t.Parallel()
	g, change := holding()
	inWorld(t, change, func(t *testing.T, w *world) {
		w.places(3)
		query, form := "operation=keep", url.Values{}
		for _, hidden := range hiddenInPage.FindAllStringSubmatch(w.page("machines/order/bulk?"+query, 0), -1) {
			form.Set(hidden[1], hidden[2])
		}
		_, location, _ := w.start("operation=stop")
		<-g.reached
		second := w.post("machines/order/bulk", form, nil)
		if second.Code != http.StatusConflict {
			t.Errorf("got status %d", second.Code)
		}
		contains(t, textOf(second.Body.String()), "Expected no running bulk operation, got one", "Nothing was changed.", "Stop · order · all instances · 1 of 3")
		contains(t, second.Body.String(), `href="/console/`+location+`"`)
		if page := w.page("machines/order/bulk?"+query, 0); strings.Contains(page, `value="start"`) {
			t.Error("the page offers a second job")
		}
		close(g.open)
		w.ended(location)
		if got := w.record("03"); got.Kept {
			t.Error("the second job ran")
		}
		contains(t, w.job(query), "3 of 3 instances: 3 changed")
	})
}

func TestAConsoleRemembersTwentyJobs(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.places(1)
		var locations []string
		for i := range 21 {
			_, location, _ := w.start("operation=" + []string{"keep", "unkeep"}[i%2])
			w.ended(location)
			locations = append(locations, location)
		}
		w.page(locations[0], 404)
		w.page(locations[1], 0)
		if got := strings.Count(w.page("machines/order/bulk", 0), `href="/console/jobs/`); got != 20 {
			t.Errorf("got %d jobs", got)
		}
	})
}

func TestAJobChangesNoMoreThanItsDryRunCounted(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.places(3)
		_, location, _ := w.start("operation=stop", "count", "2")
		contains(t, w.ended(location), "2 of 2 instances: 2 changed")
		if got := w.record("03").Status; got != statechart.Active {
			t.Errorf("the third instance is %s", got)
		}
	})
}

func TestAJobIsFollowedAndItsDryRunIsNot(t *testing.T) {
	t.Parallel()
	g, change := holding()
	inWorld(t, change, func(t *testing.T, w *world) {
		w.places(2)
		contains(t, w.page("machines/order/bulk?operation=stop", 0), `data-live=""`)
		_, location, _ := w.start("operation=stop")
		<-g.reached
		r, end := w.stream(location)
		defer end()
		time.Sleep(time.Second)
		contains(t, r.text(), "50 percent done.", `value=\"1\"`, "Stop the job")
		close(g.open)
		time.Sleep(time.Second)
		contains(t, r.text(), `"job-say":"The job has ended: 2 changed, 0 skipped, 0 failed."`, `"job-stop":""`)
	})
}
