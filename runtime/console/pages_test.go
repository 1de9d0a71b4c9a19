package console_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/instances"
)

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, change func(*console.Config), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, change)) })
}

const place = `{"type": "PLACE", "text": "two apples"}`

func TestPagesShowTheStore(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.send("order/1", `{"type": "CALL"}`)
		w.send("order/1", `{"type": "PLACE"}`)
		w.send("order/2", place)
		w.send("order/2", `{"type": "CANCEL"}`)
		w.send("order/1", `{"type": "NOPE"}`)
		contains(t, textOf(w.page("", 0)), "Machines Parked 1", "a test", "order version 1 2 1 mood.busy 1 mood.calm 1 work.cancelled 1 work.waiting 1 CALL CANCEL PLACE")

		page := w.page("machines/order", 0)
		contains(t, textOf(page), "version 1 · 2 instances · 1 failed", "Instances ", "1 waiting busy", "2 cancelled calm", "reminder")
		if got := marksOf(t, page).Counts; got["work.waiting"] != 1 || got["work.cancelled"] != 1 || got["mood.calm"] != 1 {
			t.Errorf("got the counts %v", got)
		}
		contains(t, page, "<svg", `data-path="work.waiting"`)

		page = w.page("instances/order/1", 0)
		contains(t, textOf(page), "order / 1 work.waiting mood.busy settled · version 1 · 4 transitions", "reminder in work.waiting", "→ packing [few], else cancelled",
			"2 of 4 accepted now", "CALL → stays", "CANCEL → cancelled", "PLACE ignored in this state", "Last parked event all NOPE",
			"4 kept of 4 · 1 ignored", "ignored: no transition in this state", "PLACE work.new → work.packing", "calls 1 text \"two apples\"")
		want := []string{"work.new\nwork.packing\nPLACE", "work.packing\nwork.checking\ndone.invoke.work.packing", "work.checking\nwork.waiting\n", "mood.calm\nmood.busy\nCALL"}
		if got := marksOf(t, page); !slices.Equal(got.Taken, want) || !slices.Equal(got.Active, []string{"work.waiting", "mood.busy"}) {
			t.Errorf("got the active states %q and the path %q, want %q", got.Active, got.Taken, want)
		}
		contains(t, w.page("parked", 0), `data-live=""`) // A page that reads a queue again and again would hide its messages.
		contains(t, textOf(w.page("parked", 0)), "1 shown of about 1", "order/1 NOPE", "undeclared event", "Body type \"NOPE\"")
	})
}

func TestAPageShowsTheChartAfterAnEarlierTransition(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		page := w.page("instances/order/1?at=1", 0)
		contains(t, page, "after transition 1")
		if got := marksOf(t, page); !slices.Equal(got.Active, []string{"work.packing", "mood.calm"}) || len(got.Taken) != 1 {
			t.Errorf("got %+v", got)
		}
		for _, at := range []string{"0", "99", "x"} { // Each of these shows the present.
			if got := marksOf(t, w.page("instances/order/1?at="+at, 0)); !slices.Equal(got.Active, []string{"work.waiting", "mood.calm"}) {
				t.Errorf("at=%s: got %+v", at, got)
			}
		}
	})
}

func TestTheTimelineShowsDatesOtherThanToday(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) { // It is 2000-01-01.
		w.send("order/1", place)
		if page := textOf(w.page("instances/order/1", 0)); strings.Contains(page, "Saturday") {
			t.Errorf("expected no date for the transitions of today, got %s", page)
		}
		time.Sleep(24 * time.Hour)
		contains(t, textOf(w.page("instances/order/1", 0)), "from → to by Saturday, 2000-01-01 2 00:00:00")
		w.send("order/1", `{"type": "CANCEL"}`)
		page := textOf(w.page("instances/order/1", 0))
		contains(t, page, "from → to by 3 00:00:00", "Saturday, 2000-01-01 2 00:00:00")
		if strings.Count(page, "2000-01-01") != 1 {
			t.Errorf("expected the date once, got %s", page)
		}
	})
}

func TestFiltersSelectInstances(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		for _, name := range []string{"order/gold:1", "order/silver:1", "order/silver:2"} {
			w.send(name, place)
		}
		w.send("order/gold:1", `{"type": "CANCEL"}`)
		rows := func(query string) string {
			var ids []string
			for _, found := range regexp.MustCompile(`href="/console/instances/order/([^"]*)"`).FindAllStringSubmatch(w.page("machines/order?"+query, 0), -1) {
				ids = append(ids, found[1])
			}
			return strings.Join(ids, " ")
		}
		for query, want := range map[string]string{
			"":                                  "gold:1 silver:1 silver:2",
			"state=work.waiting":                "silver:1 silver:2",
			"state=work":                        "gold:1 silver:1 silver:2",
			"state=work.waiting&prefix=silver:": "silver:1 silver:2",
			"prefix=gold":                       "gold:1",
			"only=failed":                       "gold:1",
			"only=stuck":                        "",
		} {
			if got := rows(query); got != want {
				t.Errorf("%q: got %q, want %q", query, got, want)
			}
		}
		time.Sleep(time.Hour + 3*time.Minute) // Nothing here forwards the timer, which was due after an hour.
		if got := rows("only=stuck"); got != "silver:1 silver:2" {
			t.Errorf("stuck: got %q", got)
		}
		contains(t, textOf(w.page("machines/order?only=stuck", 0)), "timer overdue", "3 active instances read")
	})
}

func TestALinkToAFilterKeepsTheOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/a:1", place)
		page := strings.ReplaceAll(w.page("machines/order?state=work.waiting&prefix=a%3A&only=failed", 0), "&amp;", "&")
		contains(t, page,
			`"/console/machines/order?prefix=a%3A&state=work.waiting"`, // all
			`"/console/machines/order?only=stuck&prefix=a%3A&state=work.waiting"`,
			`"/console/machines/order?only=failed&prefix=a%3A"`,                 // all states
			`"/console/machines/order?only=failed&prefix=a%3A&state=mood.calm"`, // in the table of the chart
		)
	})
}

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/000", place)
		record, err := w.store.Load(t.Context(), instances.ID{Machine: "order", ID: "000"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			record.Instance.ID, record.Revision = string(rune('a'+i/10))+string(rune('0'+i%10)), 1
			if err := w.store.Commit(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(w.page("machines/order", 0))
		if next == nil {
			t.Fatal("expected a next page")
		}
		page := w.page(strings.TrimPrefix(strings.ReplaceAll(next[1], "&amp;", "&"), "/console/"), 0)
		contains(t, page, "instances/order/f9")
		if strings.Contains(page, `rel="next"`) || strings.Contains(page, "instances/order/000") {
			t.Error("expected the rest of the instances")
		}
		contains(t, w.page("machines/order?cursor=x", http.StatusBadRequest), "The list has no such page.")
	})
}

func TestProblemsHaveHelpfulPages(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.send("order/2", place)
		w.change("order/2", func(r *instances.Record) {
			r.Snapshot = []byte(`{"version": 9, "status": "active", "machine": "order"}`)
		})
		contains(t, w.page("nope", http.StatusNotFound), "There is no such page.")
		contains(t, w.page("machines/nope", http.StatusNotFound), "There is no such machine.", "expected one of order")
		contains(t, w.page("instances/nope/1", http.StatusNotFound), "There is no such machine.")
		contains(t, w.page("instances/order/9", http.StatusNotFound), "There is no instance order/9.")
		contains(t, w.page("instances/order/%2F", http.StatusNotFound), "This is not the name of an instance.")
		contains(t, w.page("assets/0/console.css", http.StatusNotFound), "load it again")
		contains(t, w.page("instances/order/2", 0), "This build cannot run the instance:")
		contains(t, w.page("live/nope", http.StatusNotFound), "There is no such page.")
		w.failing.Store(true)
		contains(t, w.page("instances/order/1", http.StatusBadGateway), "AWS denied the read.")
	})
}

// secret is a task token that a record and a parked event contain.
const secret = "AAAAKgAAAAIAAAAA-the-task-token"

func TestNoPageShowsATaskToken(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.change("order/1", func(r *instances.Record) {
			r.Tokens = []instances.Token{{Key: "key", Value: secret, Name: "Packed", EnteredAt: r.UpdatedAt, Answer: &instances.Answer{Output: []byte(`"` + secret + `"`)}}}
		})
		body := `{"type": "PLACE", "$task": {"token": "` + secret + `"}}`
		_, err := w.queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &w.dead.URLs[0], MessageGroupId: aws.String("order/1"), MessageDeduplicationId: aws.String("1"), MessageBody: &body})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, w.page("instances/order/1", 0), "Waiting tasks", "Packed")
		contains(t, w.page("parked", 0), "(hidden)")
		for _, path := range append(paths, "parked") {
			if text := w.page(path, 0); strings.Contains(text, secret) {
				t.Errorf("%s shows the token:\n%s", path, text)
			}
		}
		if text := w.follow("instances/order/1", time.Second); strings.Contains(text, secret) || !strings.Contains(text, "Packed") {
			t.Errorf("expected a stream with the task and without its token, got:\n%s", text)
		}
	})
}

func TestAnInstanceShowsItsDeferredEventsWithoutTheirPayloads(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.change("order/1", func(r *instances.Record) {
			r.Snapshot = append([]byte(`{"deferred": [{"id": "click-7", "event": {"type": "CALL", "text": "`+secret+`"}}, {"event": {"type": "PLACE"}}],`), r.Snapshot[1:]...)
		})
		page := w.page("instances/order/1", 0)
		contains(t, textOf(page), "Deferred events 2 waiting CALL click-7 PLACE")
		if strings.Contains(page, secret) {
			t.Errorf("expected no payload, got:\n%s", page)
		}
	})
}

// paths are the pages of a world with the instance order/1.
var paths = []string{"", "machines/order", "machines/order?only=stuck", "machines/order?state=work.waiting", "instances/order/1", "instances/order/1?at=1"}

func TestPagesAreEscaped(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		const hostile = `"'><script>alert(1)</script>&`
		w.send("order/1", `{"type": "PLACE", "text": "\"'><script>alert(1)</script>&"}`)
		w.send(`order/'"><b>`, place)
		w.send("order/1", `{"type": "\"'><script>alert(1)</script>&"}`)
		w.change("order/1", func(r *instances.Record) {
			r.History = append(r.History, instances.Transition{At: r.UpdatedAt, Event: hostile, From: r.State, To: []string{hostile}, By: hostile, Reason: hostile})
			r.State = []string{hostile}
		})
		for _, path := range append(paths, "parked", "machines/order?state=%22%3E%3Cscript%3E&prefix=%22%3E%3Cscript%3E", "machines/%3Cscript%3E", "instances/order/'%22%3E%3Cb%3E") {
			page := w.page(path, map[bool]int{true: http.StatusNotFound}[strings.HasPrefix(path, "machines/%3C")])
			if found := regexp.MustCompile(`<script>|<b>'|alert\(1\)</script>|"'>`).FindString(page); found != "" {
				t.Errorf("%s contains %s:\n%s", path, found, page)
			}
		}
		if text := w.follow("instances/order/1", time.Second); strings.Contains(text, "<script") {
			t.Errorf("expected an escaped stream, got:\n%s", text)
		}
	})
}
