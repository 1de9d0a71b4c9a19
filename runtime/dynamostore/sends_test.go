package dynamostore_test

import (
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/instances"
)

func TestLastSendsMoveToANewQueue(t *testing.T) {
	t.Parallel()
	_, store := emptyStore(t)
	to, other := instances.ID{Machine: "tally", ID: "1"}, instances.ID{Machine: "tally", ID: "2"}
	keep := func(receiver instances.ID, queue, sender, id string) {
		if err := store.KeepSends(t.Context(), receiver, queue, []instances.LastSend{{Sender: sender, ID: id}}, created.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	keep(to, "old", "order/1@7", "3.0")
	keep(to, "older", "order/1@7", "2.0")
	keep(to, "new", "order/2@7", "5.0")
	keep(to, "old", "order/2@7", "4.0")
	keep(other, "old", "order/1@7", "1.0")
	for range 2 {
		if err := store.MoveSends(t.Context(), "tally/1 ", "new"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		receiver      instances.ID
		sender, queue string
		want          string
	}{{to, "order/1@7", "new", "3.0"}, {to, "order/2@7", "new", "5.0"}, {to, "order/2@7", "old", "4.0"}, {other, "order/1@7", "new", ""}} {
		if last, _, err := store.LastSend(t.Context(), c.receiver, c.queue, c.sender); err != nil || last.ID != c.want {
			t.Errorf("%s from %s through %s: got %v and %v, want %q", c.receiver, c.sender, c.queue, last, err, c.want)
		}
	}
}
