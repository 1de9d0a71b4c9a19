package dynamostore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestCountCountsStatesAndTagsFromTheIndex(t *testing.T) {
	t.Parallel()
	store := dynamostore.NewIndexed(newIndexedClient(t), table)
	for i := range 40 {
		mustCommit(t, store, placedRecord(fmt.Sprintf("job/%d", i), 1, statechart.Active, []string{"settled"}, "run.queued", "sla.on_time"))
	}
	mustCommit(t, store, placedRecord("job/over", 1, statechart.Done, []string{"failed"}, "run.failed", "sla.breached"))
	mustCommit(t, store, placedRecord("jobs/1", 1, statechart.Active, nil, "run.queued"))
	got, err := store.Count(t.Context(), "job")
	want := dynamostore.Counts{
		Instances: 41, States: map[string]int{"run.queued": 40, "sla.on_time": 40, "run.failed": 1, "sla.breached": 1}, Tags: map[string]int{"settled": 40, "failed": 1},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v and another count (-want +got):\n%s", err, diff)
	}
	if _, err := dynamostore.NewIndexed(newClient(t), table).Count(t.Context(), "job"); !errors.Is(err, dynamostore.ErrNoIndex) {
		t.Errorf("without an index: got %v, want ErrNoIndex", err)
	}
}

func TestPrefixSelectsByTheBeginningOfTheID(t *testing.T) {
	t.Parallel()
	store := dynamostore.NewIndexed(newIndexedClient(t), table)
	for _, name := range []string{"job/gold:1", "job/silver:1", "job/silver:2", "jobsilver/1"} {
		mustCommit(t, store, placedRecord(name, 1, statechart.Active, nil, "queued"))
	}
	filter := dynamostore.Filter{Machine: "job", Prefix: "silver:", State: "queued"}
	want := []string{"job/silver:1", "job/silver:2"}
	if got, _ := paged(t, store, filter, 1); !slices.Equal(got, want) {
		t.Errorf("by the index: got %v, want %v", got, want)
	}
	var got []string
	for record, err := range store.List(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Instance.String())
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("by the table: got %v, want %v", got, want)
	}
}
