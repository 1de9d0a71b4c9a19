package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
)

// confirm submits the form of an operation for the revision that its page shows now.
func (w *world) confirm(kind string, values ...string) (status int, location, page string) {
	w.t.Helper()
	allowed := "keep"
	if w.record("1").Kept {
		allowed = "unkeep"
	}
	form := append([]string{"do", "operate", "token", w.tokenOf("instances/order/1/operate/" + allowed), "revision", fmt.Sprint(w.record("1").Revision), "reason", "asked by mail"}, values...)
	answer := w.post("instances/order/1/operate/"+kind, with(form...), nil)
	return answer.Code, answer.Header().Get("Location"), answer.Body.String()
}

func TestAnOperationHasADryRunAndAnEntryInTheHistory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, state string
		dryRun      []string
		done        string // on the page of the instance
		state1      string // the state then
	}{
		{"stop", "", []string{"Stop order/1", "The instance would be stopped, in work.waiting mood.calm", "timer stops reminder in work.waiting", "deletion after 2000-03-31 "}, "The instance was stopped.", "stopped"},
		{"terminate", "", []string{"The instance would be stopped, in work.waiting mood.calm", "timer stops reminder"}, "The instance was terminated.", "stopped"},
		{"move", "work.packing", []string{"The instance would be in work.packing mood.calm", "left work.waiting", "entered work.packing", "timer stops reminder", "service pack in work.packing starts"}, "The instance was moved.", "work.waiting mood.calm"},
		{"keep", "", []string{"The instance would be in work.waiting mood.calm"}, "The instance is kept.", "kept"},
	} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.send("order/1", place)
			before := w.record("1")
			contains(t, w.page("instances/order/1", 0), `href="/console/instances/order/1/operate/`+c.kind+`"`)
			page := textOf(w.page("instances/order/1/operate/"+c.kind+"?state="+c.state, 0))
			contains(t, page, append(c.dryRun, "nothing was changed", "Chart after the change", "the operator a test user")...)
			if now := w.record("1"); now.Revision != before.Revision {
				t.Fatalf("the dry run of %s stored revision %d", c.kind, now.Revision)
			}
			status, next, page := w.confirm(c.kind, "state", c.state)
			if want := "/console/instances/order/1?changed=" + c.kind + "&proof="; status != http.StatusSeeOther || !strings.HasPrefix(next, want) {
				t.Fatalf("%s: got %d to %q, want %q:\n%s", c.kind, status, next, want, textOf(page))
			}
			entry := w.record("1").History[len(before.History)]
			if entry.Event != "settle."+c.kind || entry.By != "a test user" || entry.Reason != "asked by mail" {
				t.Errorf("%s: got the entry %+v", c.kind, entry)
			}
			w.applied(c.kind)
			contains(t, textOf(w.page(strings.TrimPrefix(next, "/console/"), 0)), c.done, c.state1, "settle."+c.kind, "a test user “asked by mail”")
		})
	}
}

func TestAnOperationAppliesOnlyToTheRevisionOfItsDryRun(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		seen := fmt.Sprint(w.record("1").Revision)
		w.send("order/1", `{"type": "CALL"}`)
		status, _, page := w.confirm("stop", "revision", seen)
		now := w.record("1")
		if status != http.StatusConflict || now.State[1] != "mood.busy" || now.Status != "active" {
			t.Errorf("got status %d, and %+v", status, now)
		}
		contains(t, textOf(page), fmt.Sprintf("has changed since the dry run, from revision %s to %d", seen, now.Revision), "stopped, in work.waiting mood.busy")
		contains(t, page, fmt.Sprintf(`name="revision" value="%d"`, now.Revision), `value="asked by mail"`)
		if status, _, _ := w.confirm("stop"); status != http.StatusSeeOther {
			t.Errorf("got status %d for the new revision", status)
		}
	})
	inWorld(t, func(c *console.Config) { c.Write.Store = &racing{WriteStore: c.Write.Store} }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		seen := w.record("1").Revision
		status, _, page := w.confirm("move", "state", "work.soon")
		if now := w.record("1"); status != http.StatusConflict || now.Revision != seen+1 || now.State[0] != "work.waiting" {
			t.Errorf("got status %d, and %+v", status, now)
		}
		contains(t, textOf(page), "If its timeline shows this change, do not repeat it.")
	})
}

// racing is a store in which another writer is always faster.
type racing struct{ console.WriteStore }

func (s *racing) Commit(ctx context.Context, record instances.Record) error {
	stored, err := s.Load(ctx, record.Instance)
	if err != nil {
		return err
	}
	stored.Revision++
	return errors.Join(s.WriteStore.Commit(ctx, stored), s.WriteStore.Commit(ctx, record))
}

func TestAnOperationSaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		for _, c := range []struct {
			kind   string
			values []string
			status int
			want   string
		}{
			{"move", []string{"state", "work.nowhere"}, 422, `Machine order has no state "work.nowhere" that can be active: choose one of the list. Nothing was changed.`},
			{"move", []string{"state", "mood"}, 422, "mood is a region of an active parallel state"},
			{"move", []string{"state", "work.broken"}, 422, `action fail: out of paper. Nothing was changed.`},
			{"move", nil, 400, "choose a state"},
			{"stop", []string{"reason", strings.Repeat("x", 1025)}, 422, "Expected a reason of at most 1024 bytes, got 1025."},
			{"stop", []string{"revision", "0"}, 400, "Expected the revision of the dry run."},
			{"stop", []string{"revision", "x"}, 400, "Expected the revision of the dry run."},
			{"stop", []string{"token", "x"}, 403, "The form is not of this console."},
			{"unkeep", nil, 409, "The instance is not kept."},
			{"forget", nil, 404, "There is no such operation."},
		} {
			status, _, page := w.confirm(c.kind, c.values...)
			if status != c.status {
				t.Errorf("%v: got status %d, want %d", c, status, c.status)
			}
			contains(t, textOf(page), c.want)
		}
		if got := len(w.record("1").History); got != 2 {
			t.Errorf("got %d entries in the history", got)
		}
		w.confirm("stop")
		for _, kind := range []string{"stop", "terminate", "move"} {
			status, _, page := w.confirm(kind, "state", "work.waiting")
			if status != http.StatusConflict {
				t.Errorf("%s of an ended instance: got status %d", kind, status)
			}
			contains(t, textOf(page), "The instance has ended. It is stopped in ")
		}
		page := w.page("instances/order/1", 0)
		if found := regexp.MustCompile("/operate/([a-z]+)").FindAllStringSubmatch(page, -1); len(found) != 1 || found[0][1] != "keep" {
			t.Errorf("an ended instance offers %v", found)
		}
	})
}

// failing is a queue that fails until it is repaired.
type failing struct {
	producer.Queue
	repaired bool
}

func (q *failing) Enqueue(ctx context.Context, message durable.Message) (messageID, sequenceNumber string, err error) {
	if !q.repaired {
		return "", "", fmt.Errorf("sending: %w", durable.ErrDenied)
	}
	return q.Queue.Enqueue(ctx, message)
}

func TestAnInstanceThatNothingWakesCanBeWoken(t *testing.T) {
	t.Parallel()
	queue := &failing{}
	inWorld(t, func(c *console.Config) { queue.Queue, c.Write.Queue = c.Write.Queue, queue }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		status, _, page := w.confirm("move", "state", "work.packing")
		if now := w.record("1"); status != http.StatusBadGateway || !slices.Equal(now.State, []string{"work.packing", "mood.calm"}) {
			t.Fatalf("got status %d, and %+v", status, now)
		}
		contains(t, textOf(page), "nothing wakes the instance", "The change is stored.")
		if strings.Contains(page, `name="revision"`) {
			t.Error("the page offers the operation again")
		}
		queue.repaired = true
		woken := w.post("instances/order/1/operate/move?state=work.packing", with("do", "wake", "token", tokenInPage.FindStringSubmatch(page)[1]), nil)
		next, ok := strings.CutPrefix(woken.Header().Get("Location"), "/console/")
		if woken.Code != http.StatusSeeOther || !ok || !strings.HasPrefix(next, "instances/order/1?changed=wake&") {
			t.Fatalf("got %d to %q", woken.Code, next)
		}
		w.applied("the message")
		contains(t, textOf(w.page(next, 0)), "The instance was woken.", "work.waiting mood.calm")
	})
}

func TestOperationsEscapeHostileValues(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Write.By = `<b id="by">` }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		const hostile = `"><script>alert(1)</script>` + "\xff\x00"
		_, _, page := w.confirm("stop", "reason", hostile, "revision", "1")
		_, _, other := w.confirm("move", "state", hostile)
		page += other + w.page("instances/order/1?changed="+url.QueryEscape(hostile), 0)
		if status, _, got := w.confirm("keep", "reason", hostile); status != http.StatusSeeOther {
			t.Fatalf("got status %d:\n%s", status, textOf(got))
		}
		page += w.page("instances/order/1", 0)
		if strings.Contains(page, "<script>alert") || strings.Contains(page, `<b id="by">`) {
			t.Errorf("a value is not escaped:\n%s", page)
		}
		contains(t, page, "&lt;script&gt;alert(1)")
		if got := w.record("1").History[2].Reason; !strings.HasPrefix(got, `"><script>alert(1)</script>`+"\uFFFD") {
			t.Errorf("got the reason %q", got)
		}
	})
}

func TestAConsoleWithoutAnOperatorHasNoOperations(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Write.By = "" }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		if strings.Contains(w.page("instances/order/1", 0), "/operate/") {
			t.Error("the page offers operations")
		}
		w.page("instances/order/1/operate/stop", 404)
		token := w.tokenOf("instances/order/1/events/CALL")
		if got := w.post("instances/order/1/operate/stop", with("do", "operate", "revision", "2", "token", token), nil); got.Code != http.StatusMethodNotAllowed {
			t.Errorf("got %d", got.Code)
		}
	})
}

func TestAKeptInstanceIsNotDeleted(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		page := func() string { return textOf(w.page("instances/order/1", 0)) }
		for _, c := range []struct {
			kind string
			kept bool
		}{{"stop", false}, {"keep", true}, {"unkeep", false}} {
			isDeleted := strings.Contains(textOf(w.page("instances/order/1/operate/"+c.kind, 0)), "deletion after 2000-03-31 ")
			if status, _, _ := w.confirm(c.kind); status != http.StatusSeeOther || isDeleted == c.kept {
				t.Errorf("%s: got status %d; the dry run shows a deletion: %v", c.kind, status, isDeleted)
			}
			if strings.Contains(page(), "· kept ·") != c.kept || strings.Contains(page(), "deleted after 2000-03-31 ") == c.kept {
				t.Errorf("after %s: %s", c.kind, page())
			}
		}
	})
}
