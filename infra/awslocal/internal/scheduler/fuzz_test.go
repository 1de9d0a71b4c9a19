package scheduler

import (
	"net/url"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
)

// FuzzServe checks that no request causes a panic, immediately or within a day, and that the records can be restored.
func FuzzServe(f *testing.F) {
	f.Add("POST", "/schedules/s", "", body(at(4*time.Second), `ClientToken="t"`, `ActionAfterCompletion="DELETE"`, `Target.DeadLetterConfig={"Arn":"`+deadARN+`"}`))
	f.Add("POST", "/schedules/s", "", body("rate(1 minute)", "StartDate=1772366400", "EndDate=1772370000.5", `ScheduleExpressionTimezone="Asia/Tokyo"`))
	f.Add("PUT", "/schedules/known", "", body(at(time.Hour), `State="DISABLED"`))
	f.Add("GET", "/schedules", "NamePrefix=k&MaxResults=1&State=ENABLED&NextToken=x", "")
	f.Add("GET", "/schedules", "NamePrefix=%zz&MaxResults=1", "")
	f.Add("DELETE", "/schedules/known", "clientToken=t", "")
	f.Add("POST", "/schedule-groups/g", "", `{"Tags":[{"Key":"a","Value":"b"}]}`)
	f.Add("POST", "/tags/"+groupARN("default"), "", `{"Tags":[{"Key":"a","Value":"b"}]}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		values, _ := url.ParseQuery(query) // like the server, which drops invalid parameters
		b, kept := newBench(t), recordtest.Kept{}
		b.model.Keep()
		b.fail = failUntil(b.now.Add(5*time.Second), b)
		b.ok("POST", "/schedules/known", knownBody)
		if _, err := b.model.Serve(b.now, method, path, values, []byte(body)); err != nil && err.Message == "" {
			t.Errorf("the error %s has no message", err.Code)
		}
		b.perform()
		kept.Apply(b.model.TakeRecords())
		again := b.restored(kept)
		if want, got := b.ok("GET", "/schedules", ""), again.ok("GET", "/schedules", ""); got != want {
			t.Errorf("restored: got %s, want %s", got, want)
		}
		b.advance(10 * time.Minute)
		kept.Apply(b.model.TakeRecords())
		b.restored(kept)
	})
}

var knownBody = body(at(time.Second))
