package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// parts has one value of each type that an Encoder supports.
type parts struct {
	Number  uint64
	Truth   bool
	Text    string
	Strings map[string]string
	Time    time.Time
}

func encoded(p parts) []byte {
	var e record.Encoder
	e.Uint(p.Number)
	e.Bool(p.Truth)
	e.String(p.Text)
	e.Strings(p.Strings)
	e.Time(p.Time)
	return e.Value()
}

func decoded(value []byte) (parts, error) {
	d := record.NewDecoder(value)
	p := parts{d.Uint(), d.Bool(), d.String(), d.Strings(), d.Time()}
	return p, d.Close()
}

func TestDecoder_reads_the_encoding_and_rejects_its_prefixes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := parts{
			Number: rapid.Uint64().Draw(t, "number"), Truth: rapid.Bool().Draw(t, "truth"), Text: rapid.String().Draw(t, "text"),
			Time: time.Unix(0, rapid.Int64Range(-1<<62, 1<<62).Draw(t, "nanoseconds")).UTC(),
		}
		if rapid.Bool().Draw(t, "zero") {
			want.Time = time.Time{}
		}
		if m := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "strings"); len(m) > 0 {
			want.Strings = m
		}
		value := encoded(want)
		got, err := decoded(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("decoded (-want +got):\n%s", diff)
		}
		for length := range value {
			if _, err := decoded(value[:length]); err == nil {
				t.Fatalf("%d of the %d bytes: expected an error, got none", length, len(value))
			}
		}
		if _, err := decoded(append(value, 0)); err == nil {
			t.Fatal("an extra byte: expected an error, got none")
		}
	})
}
