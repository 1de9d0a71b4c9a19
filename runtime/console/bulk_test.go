package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// places starts the instances order/01, order/02 and so on. All wait then.
func (w *world) places(count int) {
	w.t.Helper()
	for i := range count {
		w.send(fmt.Sprintf("order/%02d", i+1), place)
	}
}

// record returns the stored record of order/ID.
func (w *world) record(id string) instances.Record {
	w.t.Helper()
	record, err := w.store.Load(w.t.Context(), instances.ID{Machine: "order", ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// tokenOf returns the token of the forms of a page.
func (w *world) tokenOf(path string) string {
	w.t.Helper()
	found := tokenInPage.FindStringSubmatch(w.page(path, 0))
	if found == nil {
		w.t.Fatalf("%s has no form", path)
	}
	return found[1]
}

var hiddenInPage = regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`)

// start submits the form of the dry run with the query. values replace values of the form.
func (w *world) start(query string, values ...string) (status int, location, page string) {
	w.t.Helper()
	form := url.Values{"do": {"start"}, "reason": {"asked by mail"}}
	for _, hidden := range hiddenInPage.FindAllStringSubmatch(w.page("machines/order/bulk?"+query, 0), -1) {
		form.Set(hidden[1], hidden[2])
	}
	for name, value := range with(values...) {
		form[name] = value
	}
	answer := w.post("machines/order/bulk?"+query, form, nil)
	return answer.Code, strings.TrimPrefix(answer.Header().Get("Location"), "/console/"), answer.Body.String()
}

// job starts the job of the dry run with the query, waits for its end, and returns the text of its page.
func (w *world) job(query string) string {
	w.t.Helper()
	status, location, page := w.start(query)
	if status != http.StatusSeeOther {
		w.t.Fatalf("%s: got status %d:\n%s", query, status, textOf(page))
	}
	return w.ended(location)
}

// ended waits for the end of a job, and returns the text of its page.
func (w *world) ended(location string) string {
	w.t.Helper()
	for range 1000 {
		if text := textOf(w.page(location, 0)); !strings.Contains(text, " left. ") {
			return text
		}
		time.Sleep(jobStep)
	}
	w.t.Fatal("the job does not end")
	return ""
}

// jobStep is the time between two instances of a job.
const jobStep = time.Second / 25

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

// committing returns a change of the configuration that calls `before` before each commit of a bulk operation.
func committing(before func(instances.Record) error) func(*console.Config) {
	return func(c *console.Config) { c.Write.Store = &commits{c.Write.Store, before} }
}

func TestABulkOperationHasADryRunAndChangesEachMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query  string
		dryRun []string
		state  string // of the changed instances
		again  string // in the dry run after the job
	}{
		{"state=work.waiting&operation=stop", []string{"all instances in work.waiting", "Dry run: Stop", "3 instances would be changed", "read 3 active instances. Ended instances are skipped.", "work.waiting 3", "order/01 would be stopped, in work.waiting mood.calm timer stops reminder", "Stop 3 instances", "the operator a test user"}, "stopped", "0 instances would be changed."},
		{"prefix=0&operation=terminate", []string{"all instances with an ID that begins with 0", "3 instances would be changed"}, "stopped", "0 instances would be changed."},
		{"prefix=0&operation=move&to=work.packing", []string{"Dry run: Move to work.packing", "order/01 would be in work.packing mood.calm left work.waiting entered work.packing", "service pack in work.packing starts"}, "active", "0 instances would be changed."},
		{"prefix=0&operation=move&to=work", []string{"0 instances would be changed. effect", "skipped 3 already in work"}, "", ""},
		{"prefix=0&operation=keep", []string{"3 instances would be changed, at most 25 a second, in about 120 ms.", "read 3 instances."}, "kept", "skipped 3 kept already"},
		{"prefix=0&only=failed&operation=keep", []string{"failed instances with an ID that begins with 0", "0 instances would be changed"}, "", ""},
		{"operation=unkeep", []string{"0 instances would be changed", "skipped 4 not kept"}, "", ""},
	} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.places(3)
			w.send("order/1", place)
			w.send("order/1", `{"type": "CANCEL"}`)
			contains(t, w.page("machines/order?state=work.waiting", 0), `href="/console/machines/order/bulk?only=&amp;prefix=&amp;state=work.waiting"`, "Operate on all of these…")
			before := w.record("01")
			contains(t, textOf(w.page("machines/order/bulk?"+c.query, 0)), append(c.dryRun, "nothing was changed")...)
			if now := w.record("01"); now.Revision != before.Revision {
				t.Fatalf("the dry run of %s stored revision %d", c.query, now.Revision)
			}
			if c.state == "" {
				if page := w.page("machines/order/bulk?"+c.query, 0); strings.Contains(page, `value="start"`) {
					t.Errorf("%s: the page offers to change nothing", c.query)
				}
				return
			}
			contains(t, w.job(c.query), "3 of 3 instances: 3 changed, 0 skipped, 0 failed. Ended ", "asked by mail", "The job has ended: 3 changed")
			for i := range 3 {
				record := w.record(fmt.Sprintf("%02d", i+1))
				entry := record.History[len(before.History)]
				if entry.By != "a test user" || !regexp.MustCompile(`^asked by mail \(bulk \d+\)$`).MatchString(entry.Reason) {
					t.Errorf("%s: got the entry %+v", c.query, entry)
				}
				if c.state == "kept" && !record.Kept || c.state != "kept" && string(record.Status) != c.state {
					t.Errorf("%s: got %+v", c.query, record)
				}
			}
			if other := w.record("1"); len(other.History) != len(before.History)+1 {
				t.Errorf("%s: an instance that does not match has the history %+v", c.query, other.History)
			}
			if c.state == "active" { // Until the services have ended.
				return
			}
			contains(t, textOf(w.page("machines/order/bulk?"+c.query, 0)), c.again, "Bulk operations since the console started", "· order · all instances", "· 3 of 3, ended")
		})
	}
}

func TestABulkMoveSkipsInstancesThatAreInTheState(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.places(2)
		const query = "operation=move&to=work.soon"
		contains(t, w.job(query), "2 changed")
		w.applied("the moves")
		if got := w.record("01").State[0]; got != "work.soon" {
			t.Errorf("got the state %s", got)
		}
		contains(t, textOf(w.page("machines/order/bulk?"+query, 0)), "0 instances would be changed", "skipped 2 already in work.soon")
	})
}

func TestABulkOperationOnStuckInstancesLeavesTheOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.places(1)
		time.Sleep(2 * time.Hour) // The timer of 01 is overdue.
		w.send("order/02", place)
		contains(t, w.job("only=stuck&operation=stop"), "1 of 1 instance: 1 changed")
		if a, b := w.record("01").Status, w.record("02").Status; a != statechart.Stopped || b != statechart.Active {
			t.Errorf("got %s and %s", a, b)
		}
	})
}

func TestAJobSkipsInstancesThatNoLongerMatch(t *testing.T) {
	t.Parallel()
	var w *world
	change := committing(func(record instances.Record) error {
		if record.Instance.ID == "01" && record.Status == statechart.Stopped {
			form := with("do", "operate", "token", w.tokenOf("instances/order/02/operate/stop"), "revision", fmt.Sprint(w.record("02").Revision))
			w.post("instances/order/02/operate/stop", form, nil)
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
		// The moves fail in the chart, and its dry run says so.
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

func TestABulkOperationSaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.places(2)
		const query = "prefix=0&operation=stop"
		for _, c := range []struct {
			values []string
			status int
			want   string
		}{
			{[]string{"token", "forged"}, 403, "The form is not of this console."},
			{[]string{"count", "0"}, 400, `Expected the number of instances of the dry run, 1 to 10000, got "0".`},
			{[]string{"count", "10001"}, 400, `got "10001"`},
			{[]string{"count", "many"}, 400, `got "many"`},
			{[]string{"only", "lucky"}, 400, `Expected failed or stuck, got "lucky".`},
			{[]string{"operation", "forget"}, 404, "There is no such operation."},
			{[]string{"operation", ""}, 400, "choose an operation"},
			{[]string{"operation", "move"}, 422, "Expected a new state for the move, got none: choose one."},
			{[]string{"operation", "move", "to", "work.nowhere"}, 422, `Machine order has no state "work.nowhere" that can be active: choose one of the list. Nothing was changed.`},
			{[]string{"reason", strings.Repeat("x", 993)}, 422, "Expected a reason of at most 992 bytes, got 993."},
			{[]string{"prefix", "x"}, 409, "No instance matches any more. Nothing was changed."},
		} {
			status, _, page := w.start(query, c.values...)
			if status != c.status {
				t.Errorf("%q: got status %d, want %d", c.values, status, c.status)
			}
			contains(t, textOf(page), c.want)
		}
		w.page("machines/nope/bulk", 404)
		w.page("machines/order/bulk?only=lucky&operation=stop", 400)
		w.page("machines/order/bulk?operation=move", 422)
		form := with("do", "start", "operation", "stop", "count", "2", "token", w.tokenOf("machines/order/bulk?operation=stop"))
		foreign := w.post("machines/order/bulk", form, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
		if foreign.Code != http.StatusForbidden {
			t.Errorf("a foreign origin: got status %d", foreign.Code)
		}
		var err error
		if w.handler, err = console.New(w.config); err != nil { // The console is restarted.
			t.Fatal(err)
		}
		if expired := w.post("machines/order/bulk", form, nil); expired.Code != http.StatusForbidden {
			t.Errorf("an expired form: got status %d", expired.Code)
		}
		if strings.Contains(w.page("machines/order/bulk", 0), "/console/jobs/") || w.record("01").Status != statechart.Active {
			t.Error("a refused form started a job")
		}
	})
}

// endless is a store with an endless list.
type endless struct{ console.Store }

func (s endless) ListPage(ctx context.Context, filter dynamostore.Filter, limit int, cursor string) (dynamostore.Page, error) {
	page, err := s.Store.ListPage(ctx, filter, limit, "")
	for len(page.Records) > 0 && len(page.Records) < limit {
		next := page.Records[0]
		next.Instance.ID = fmt.Sprintf("%s-%d", cursor, len(page.Records))
		page.Records = append(page.Records, next)
	}
	page.Cursor = cursor + "x"
	return page, err
}

func TestABulkOperationReadsABoundedNumber(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Store = endless{c.Store} }, func(t *testing.T, w *world) {
		w.places(1)
		page := w.page("machines/order/bulk?operation=stop", 0)
		contains(t, textOf(page), "read 10000 active instances", "Expected at most 10000 instances to read, got more. Select fewer, or use settle bulk .")
		if strings.Contains(page, `value="start"`) {
			t.Error("the page offers the operation")
		}
		form := with("operation", "unkeep", "count", "10000", "token", w.tokenOf("instances/order/01/events/CALL"))
		if got := w.post("machines/order/bulk", form, nil); got.Code != http.StatusUnprocessableEntity {
			t.Errorf("got status %d", got.Code)
		}
	})
}

// twice is a store that lists each instance on two pages.
type twice struct{ console.Store }

func (s twice) ListPage(ctx context.Context, filter dynamostore.Filter, limit int, cursor string) (dynamostore.Page, error) {
	page, err := s.Store.ListPage(ctx, filter, limit, "")
	if cursor == "" {
		page.Cursor = "second"
	}
	return page, err
}

func TestABulkOperationCountsAnInstanceOnceAndShowsItsCost(t *testing.T) {
	t.Parallel()
	var units atomic.Int64
	inWorld(t, func(c *console.Config) {
		c.Store, c.ReadUnits = twice{c.Store}, func() float64 { return float64(units.Add(40)) }
	}, func(t *testing.T, w *world) {
		w.places(2)
		contains(t, textOf(w.page("machines/order/bulk?operation=stop", 0)), "2 instances would be changed", "read 4 active instances, about 40 read units, $0.000005.")
		contains(t, w.job("operation=stop"), "2 of 2 instances: 2 changed")
	})
}

func TestOnlyAConsoleWithAnOperatorHasBulkOperations(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Write.By = "" }, func(t *testing.T, w *world) {
		w.places(1)
		if strings.Contains(w.page("machines/order", 0), "/bulk") {
			t.Error("the page offers bulk operations")
		}
		w.page("machines/order/bulk?operation=stop", 404)
		w.page("jobs/1", 404)
		token := w.tokenOf("instances/order/01/events/CALL")
		for _, path := range []string{"machines/order/bulk", "jobs/1"} {
			if got := w.post(path, with("do", "start", "operation", "stop", "count", "1", "token", token), nil); got.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: got %d", path, got.Code)
			}
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

func TestBulkOperationsEscapeHostileValues(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Write.By = `<b id="by">` }, func(t *testing.T, w *world) {
		w.places(1)
		const hostile = `"><script>alert(1)</script>`
		query := "prefix=" + url.QueryEscape(hostile) + "&state=" + url.QueryEscape(hostile) + "&operation=keep"
		page := w.page("machines/order/bulk?"+query, 0) + w.page("machines/order?"+query, 0)
		_, location, got := w.start("operation=keep", "reason", hostile)
		w.ended(location)
		page += got + w.page(location, 0) + w.page("machines/order/bulk", 0)
		if strings.Contains(page, "<script>alert") || strings.Contains(page, `<b id="by">`) {
			t.Errorf("a value is not escaped:\n%s", page)
		}
		contains(t, page, "&lt;script&gt;alert(1)")
	})
}
