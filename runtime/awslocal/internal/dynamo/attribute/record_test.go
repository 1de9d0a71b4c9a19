package attribute

import (
	"testing"

	"github.com/settle-run/settle/runtime/awslocal/internal/record"
)

func recorded(m Map) []byte {
	var e record.Encoder
	m.Record(&e)
	return e.Value()
}

func TestFromRecord_reads_what_is_nested_deeper_than_a_request_may_be(t *testing.T) {
	t.Parallel()
	want := Map{{"n", NewNumber(-5)}}
	for range 2 * NestingMax {
		want = Map{{"list", List{want, Null{}}}}
	}
	d := record.NewDecoder(recorded(want))
	got, err := FromRecord(d)
	if err != nil || d.Close() != nil || !Equal(got, want) {
		t.Errorf("got %v, %v, %v; want %v", got, err, d.Close(), want)
	}
}

func TestFromRecord_refuses_types_that_it_does_not_know(t *testing.T) {
	t.Parallel()
	value := recorded(Map{{"a", Null{}}})
	value[len(value)-1] = byte(len(recordTypes))
	if got, err := FromRecord(record.NewDecoder(value)); err == nil {
		t.Errorf("got %v, expected an error", got)
	}
}
