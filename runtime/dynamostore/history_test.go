package dynamostore

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/instances"
)

// TestAHistoryIsStoredAsItsJSON guards the fields of a transition: each of them must be stored.
func TestAHistoryIsStoredAsItsJSON(t *testing.T) {
	t.Parallel()
	full := instances.Transition{
		At: time.Date(2026, 1, 2, 15, 4, 5, 120e6, time.UTC), Event: "<VERIFY> ü\xff", From: []string{"a.b", "c"}, To: []string{}, Ignored: true, By: "ada", Reason: "\"why\"",
	}
	for i := range reflect.TypeFor[instances.Transition]().NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("set field %d of the transition in this test, and store it in historyOf", i)
		}
	}
	history := []instances.Transition{full, {At: full.At, Event: "x", To: []string{"c"}}}
	want, err := attributeOf(attrHistory, history)
	if err != nil {
		t.Fatal(err)
	}
	got := historyOf(history)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	history[0].Event = "<VERIFY> ü\ufffd"
	if decoded, ok := transitionsOf(got); !ok || cmp.Diff(history, decoded) != "" {
		t.Errorf("got %v, want %v", decoded, history)
	}
}

func TestAHistoryOfAnotherFormIsDecodedAsJSON(t *testing.T) {
	t.Parallel()
	full := instances.Transition{At: time.Unix(0, 0).UTC(), Event: "x", From: []string{"a"}, To: []string{"b"}}
	for name, test := range map[string]struct {
		value types.AttributeValue
		want  string
	}{
		"newer": {text("of a newer build"), ""},
		"at":    {text("noon"), `attribute "history": expected a time such as 2026-01-02T15:04:05Z under "[0].at", got another string`},
		"event": {number(1), `attribute "history": expected a string under "[0].event", got a number`},
		"from":  {textsOf([]string{"a"}), ""},
		"to":    {text("b"), `attribute "history": expected an array under "[0].to", got a string`},
		"by":    {&types.AttributeValueMemberNULL{Value: true}, ""},
	} {
		attribute := historyOf([]instances.Transition{full})
		attribute.(*types.AttributeValueMemberL).Value[0].(*types.AttributeValueMemberM).Value[name] = test.value
		record, err := recordOf(map[string]types.AttributeValue{
			attrInstance: text("signup/42"), attrRevision: number(1), attrCreatedAt: text("2026-01-02T15:04:05Z"), attrHistory: attribute,
		})
		if test.want == "" && (err != nil || cmp.Diff([]instances.Transition{full}, record.History) != "") || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%s: got %v and %v, want %q", name, record.History, err, test.want)
		}
	}
}
