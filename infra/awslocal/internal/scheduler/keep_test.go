package scheduler

import (
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
)

// restored returns a bench whose model has been restored from records.
func (b *bench) restored(kept recordtest.Kept) *bench {
	b.Helper()
	again := newBench(b.T)
	again.now = b.now
	if err := again.model.Restore(kept.Each); err != nil {
		b.Fatal(err)
	}
	return again
}

func TestRestore_restores_groups_tags_and_tokens(t *testing.T) {
	t.Parallel()
	b, kept := newBench(t), recordtest.Kept{}
	b.model.Keep()
	create := body(at(time.Hour), `ClientToken="t"`, `GroupName="g"`, `ScheduleExpressionTimezone="Asia/Tokyo"`, `StartDate=1772400000.25`)
	b.ok("POST", "/schedule-groups/g", `{"Tags":[{"Key":"a","Value":"1"}]}`)
	b.ok("POST", "/schedule-groups/gone", `{}`)
	b.ok("POST", "/schedules/s", create)
	kept.Apply(b.model.TakeRecords())
	b.ok("POST", "/tags/"+groupARN("default"), `{"Tags":[{"Key":"b","Value":"2"}]}`)
	b.ok("POST", "/tags/"+groupARN("g"), `{"Tags":[{"Key":"c","Value":"3"}]}`)
	b.ok("DELETE", "/schedule-groups/gone", "")
	kept.Apply(b.model.TakeRecords())

	again := b.restored(kept)
	for _, path := range []string{"/schedules/s?groupName=g", "/schedule-groups", "/schedules", "/tags/" + groupARN("g"), "/tags/" + groupARN("default")} {
		if want, got := b.ok("GET", path, ""), again.ok("GET", path, ""); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	again.ok("POST", "/schedules/s", create) // the restored model still knows the token

	b.advance(tokenLifetime)
	b.ok("GET", "/schedules", "")
	kept.Apply(b.model.TakeRecords())
	b.restored(kept).refused("POST", "/schedules/s", create, "ConflictException", 409, "already exists")
	for key := range kept {
		if len(key) > len(tokenRecords) && key[:len(tokenRecords)] == tokenRecords {
			t.Errorf("the record %s still exists after its token expired", key)
		}
	}
}

func TestRestore_returns_unfinished_firings_again(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]bool{"an attempt": false, "a dead letter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, kept := newBench(t), recordtest.Kept{}
			b.model.Keep()
			b.ok("POST", "/schedules/s", body(at(time.Second), `ActionAfterCompletion="DELETE"`,
				`Target.RetryPolicy={"MaximumRetryAttempts":0}`, `Target.DeadLetterConfig={"Arn":"`+deadARN+`"}`))
			b.now = b.now.Add(time.Second)
			b.model.Advance(b.now)
			taken := b.model.TakeFirings()
			if fail {
				kept.Apply(b.model.TakeRecords())
				b.model.Finish(b.now, taken[0].ID, failUntil(b.now.Add(1), b)(""))
				taken = b.model.TakeFirings()
			}
			kept.Apply(b.model.TakeRecords())

			again := b.restored(kept)
			again.advance(time.Hour)
			again.wantFired("+1s " + string(taken[0].Request))
			again.refused("GET", "/schedules/s", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
		})
	}
}

func TestRestore_rejects_invalid_records(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"queue/q": "{}", "serial": "x", "schedule/default/s": `{"Definition":{"ScheduleExpression":"?"}}`, "invocation/x": "{}"} {
		if err := New().Restore(recordtest.Kept{key: []byte(value)}.Each); err == nil {
			t.Errorf("%s: %s was accepted as a record", key, value)
		}
	}
}
