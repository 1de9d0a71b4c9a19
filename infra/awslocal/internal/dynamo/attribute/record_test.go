package attribute

import (
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

func recorded(m Map) []byte {
	var e record.Encoder
	m.Record(&e)
	return e.Value()
}

func TestFromRecord_reads_deeper_nesting_than_requests_allow(t *testing.T) {
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

func TestFromRecord_rejects_unknown_types(t *testing.T) {
	t.Parallel()
	value := recorded(Map{{"a", Null{}}})
	value[len(value)-1] = byte(len(recordTypes))
	if got, err := FromRecord(record.NewDecoder(value)); err == nil {
		t.Errorf("got %v, expected an error", got)
	}
}
