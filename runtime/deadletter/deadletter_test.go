package deadletter_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/deadletter"
)

func TestShownHidesEveryTaskToken(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"type":"A", "n":1.50}`:                                          `{"type":"A", "n":1.50}`,
		`{"$task":{"name":"Paid","token":"SECRET"},"n":1.50}`:             `{"$task":{"name":"Paid","token":"(hidden)"},"n":1.50}`,
		`{"\u0024task":{"token":"SECRET"}}`:                               `{"$task":{"token":"(hidden)"}}`,
		`{"$task":["SECRET"]}`:                                            `{"$task":"(hidden)"}`,
		`{"to":"order/1","body":{"type":"A","$task":{"token":"SECRET"}}}`: `{"body":{"$task":{"token":"(hidden)"},"type":"A"},"to":"order/1"}`,
		`[{"$task":{"token":"SECRET"}}]`:                                  `[{"$task":{"token":"(hidden)"}}]`,
		`{"MessageBody":"{\"$task\":{\"token\":\"SECRET\"}}"}`:            `{"MessageBody":"(hidden)"}`,
		`{"$task":{"token":"SECRET"`:                                      "(26 bytes, not JSON, hidden because they may contain a task token)",
		`plain`:                                                           "plain",
	} {
		if got := (&deadletter.Message{Body: body}).Shown(); got != want {
			t.Errorf("%s: expected %s, got %s", body, want, got)
		}
	}
}
