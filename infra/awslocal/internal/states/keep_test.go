package states_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
)

func TestRestoreRejectsUnknownRecords(t *testing.T) {
	t.Parallel()
	for key, test := range map[string]struct{ value, want string }{
		"colours/0000000000000001":   {`{}`, "restoring the record colours/0000000000000001: unknown kind of record"},
		"counters":                   {`[]`, "restoring the record counters"},
		"revision/0000000000000001":  {`{"Definition": "{}"}`, "StartAt"},
		"execution/0000000000000001": {`{"ARN": "a", "Machine": 1}`, "restoring the execution a: its state machine is missing"},
	} {
		err := states.New().Restore(maps.All(map[string][]byte{key: []byte(test.value)}))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want ...%s...", key, err, test.want)
		}
	}
}

func TestNothingIsRecordedWithoutKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(passing, `{}`)
	if records := w.m.TakeRecords(); len(records) != 0 {
		t.Errorf("got %d records without Keep", len(records))
	}
}
