package producer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestAnEventHasALargestSize checks the largest event that fits, and the error for one more byte. Check may add an ID
// to the event, and the queue may escape characters. The test covers both additions.
func TestAnEventHasALargestSize(t *testing.T) {
	t.Parallel()
	machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"LIGHT": statechart.NoPayload()},
		States: []statechart.State[struct{}]{{ID: "off", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{{Event: "LIGHT"}}}},
	}), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, id, added string }{
		"no addition":                      {"", "", ""},
		"an ID":                            {"", "light-1", `,"$id":"light-1"`},
		"a character that SQS refuses":     {"\uffff", "", "+++"},
		"two characters that SQS refuses":  {"\ufffe\uffff", "", "++++++"},
		"the replacement character, legal": {"\ufffd", "", ""},
	} {
		const head, tail = `{"type":"LIGHT","note":"`, `"}`
		room := producer.EventBytesMax - len(head) - len(test.text) - len(tail) - len(test.added)
		for more, want := range []string{"", fmt.Sprintf("too large: expected an event of at most %d bytes with its $id, got %d: store the data elsewhere and send a reference", producer.EventBytesMax, producer.EventBytesMax+1)} {
			body := head + test.text + strings.Repeat("n", room+more) + tail
			_, err := producer.Check(machines, lamp1, []byte(body), test.id, producer.EventBytesMax)
			if errors.Is(err, producer.ErrTooLarge) != (want != "") || err != nil && err.Error() != want {
				t.Errorf("%s, %d bytes more than the largest: got %v, want %q", name, more, err, want)
			}
		}
	}
}
