package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// places starts the instances order/01, order/02 and so on, and leaves them all waiting.
func (w *world) places(count int) {
	w.t.Helper()
	for i := range count {
		w.send(fmt.Sprintf("order/%02d", i+1), place)
	}
}

var hiddenInPage = regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`)

// start submits the form on the page of a dry run. `query` selects the page. `values` are pairs of a name and a value,
// and replace fields of the form.
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

// job starts the job from the dry run that `query` selects, waits until the job ends, and returns the text of its page.
func (w *world) job(query string) string {
	w.t.Helper()
	status, location, page := w.start(query)
	if status != http.StatusSeeOther {
		w.t.Fatalf("%s: got status %d:\n%s", query, status, textOf(page))
	}
	return w.ended(location)
}

// ended waits until a job ends, and returns the text of its page.
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
			contains(t, w.page("machines/order?state=work.waiting", 0), `href="/console/machines/order/bulk?state=work.waiting"`, "Operate on all of these…")
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
			if c.state == "active" { // The moved instances are active until their services have ended.
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
		time.Sleep(2 * time.Hour) // The timer of order/01 is overdue.
		w.send("order/02", place)
		contains(t, w.job("only=stuck&operation=stop"), "1 of 1 instance: 1 changed")
		if a, b := w.record("01").Status, w.record("02").Status; a != statechart.Stopped || b != statechart.Active {
			t.Errorf("got %s and %s", a, b)
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
		if w.handler, err = console.New(w.config); err != nil { // This restarts the console.
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
