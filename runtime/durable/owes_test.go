package durable_test

import (
	"encoding/json"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestRecordOwesEffectsAndAnswersThatAreNotKnownToBeGiven(t *testing.T) {
	t.Parallel()
	waiting, answered := durable.Token{Key: "a"}, durable.Token{Key: "b", Answer: &durable.Answer{Output: json.RawMessage(`{}`)}}
	for name, c := range map[string]struct {
		record durable.Record
		want   bool
	}{
		"nothing":                      {durable.Record{}, false},
		"an effect":                    {durable.Record{Outbox: []statechart.Effect{{ID: "1.0"}}}, true},
		"a task that has to wait":      {durable.Record{Tokens: []durable.Token{waiting}}, false},
		"an answer":                    {durable.Record{Tokens: []durable.Token{answered}}, true},
		"an answer behind one to come": {durable.Record{Tokens: []durable.Token{waiting, answered}}, true},
	} {
		if got := c.record.Owes(); got != c.want {
			t.Errorf("%s: expected %t, got %t", name, c.want, got)
		}
	}
}
