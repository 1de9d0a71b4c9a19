package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAStopThatComesBeforeTheStartStoresTheChildAsStopped(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		var applied []durable.Applied
		w.config.Observer.Applied = func(_ context.Context, a durable.Applied) { applied = append(applied, a) }
		w.post(boss1, ship)
		w.invoke()
		start, parent := w.messages[0].Delivery, w.load(boss1)
		w.remove(start) // The queue gives up on the start message after too many receives.
		w.post(boss1, event("cancel", ""))
		w.run(t)
		w.wantFamily(t, "courier stopped") // A courier that never ran has no radio.
		r := w.load(start.Group)
		if want := (instances.Parent{Instance: boss1, Incarnation: parent.CreatedAt.UnixMilli(), Child: "2.0"}); r.Parent == nil || *r.Parent != want || r.CreatedAt.IsZero() {
			t.Errorf("the parent is %+v, want %+v; created at %v", r.Parent, want, r.CreatedAt)
		}
		if want := []instances.Transition{{At: r.UpdatedAt, Event: "settle.stop", From: []string{}, To: []string{"boarding"}}}; !reflect.DeepEqual(r.History, want) {
			t.Errorf("the history is %+v, want %+v", r.History, want)
		}
		if !r.ExpireAt.Equal(r.UpdatedAt.Add(deduplicationTime * 12)) {
			t.Errorf("the item expires at %v, want the retention after %v", r.ExpireAt, r.UpdatedAt)
		}
		if last := applied[len(applied)-1]; last.Event != "settle.stop" || last.Delivery.Group != start.Group || !last.Settled {
			t.Errorf("the observer received %+v last, want the stop", last)
		}
		w.post(start.Group, start.Body) // An operator sends the start message again.
		w.post(start.Group, event("add", "late"))
		w.run(t)
		w.wantFamily(t, "courier stopped")
		if r := w.load(start.Group); r.Ignored != 1 {
			t.Errorf("%d events ignored, want 1", r.Ignored)
		}
		delete(w.records, start.Group) // TTL deletes the item.
		delete(w.revision, start.Group)
		w.post(start.Group, start.Body)
		w.run(t)
		w.wantFamily(t, "courier stopped") // The start message stores the courier as stopped again.
		w.post(boss1, ship)
		w.run(t)
		w.post(start.Group, start.Body)
		w.run(t)
		w.wantFamily(t, "courier active, courier stopped, radio active")
		w.wantParked(t)
	})
}

// mood is data whose zero value cannot be restored.
type mood string

func (m *mood) UnmarshalText(text []byte) error {
	if *m = mood(text); *m == "" {
		return errors.New("no mood")
	}
	return nil
}

func TestAStopOfAChildWhoseZeroDataCannotBeRestoredIsSkipped(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		var logged bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		moody := durable.Host(statechart.Must(statechart.Definition[struct{ Mood mood }]{
			ID: "courier", Version: 1, Initial: "idle", States: []statechart.State[struct{ Mood mood }]{{ID: "idle", Tags: settled}}, Input: statechart.PayloadOf[errand](),
			Context: func(statechart.Start) struct{ Mood mood } { panic("unstartable") },
		}), durable.MachineConfig{})
		w.host(t, w.boss(), moody)
		w.post(boss1, ship)
		w.run(t)
		w.wantState(t, boss1, "idle")
		if names := w.stored("courier"); len(names) > 0 || !strings.Contains(logged.String(), "cannot store a child as stopped") {
			t.Errorf("stored the instances %q, want none; the log is\n%s", names, logged.String())
		}
		w.wantParked(t)
	})
}

func TestAStartOrAStopThatNoParentHasSentLeavesNothing(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, event("add", "a"))
		w.run(t)
		parent := fmt.Sprintf(`"$parent": {"instance": "boss/1", "incarnation": %d, "child": "1.0"}`, w.load(boss1).CreatedAt.UnixMilli())
		w.post("courier/free", `{"type": "settle.start", "input": {"item": "first"}, `+parent+`}`, `{"type": "settle.stop", `+parent+`}`)
		w.run(t)
		if names := w.stored("courier"); len(names) > 0 {
			t.Errorf("stored the instances %q, want none", names)
		}
	})
}

func TestAParentOfTheSameNameHasChildrenOfItsOwn(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.invoke()
		start := w.messages[0].Delivery
		w.run(t)
		old := w.van(t)
		delete(w.records, boss1)
		delete(w.revision, boss1)
		time.Sleep(time.Minute)
		w.post(boss1, event("ship", "second"))
		w.run(t)
		van := w.van(t)
		w.post(old, event("finish", ""))
		w.run(t)
		w.wantFamily(t, "courier active, courier done, radio active, radio stopped")
		w.wantState(t, boss1, "shipping")
		w.post(van, event("finish", ""))
		w.run(t)
		w.wantLog(t, boss1, `back "second board ok"`)

		w.post(boss1, event("add", "a"), event("ship", "third"))
		w.run(t)
		delete(w.records, boss1)
		delete(w.revision, boss1)
		w.post(boss1, ship)
		w.run(t)
		delete(w.records, old)
		delete(w.revision, old)
		w.post(start.Group, start.Body) // The new parent has the old name, and lists a child with the same key.
		w.run(t)
		if status := w.load(old).Status; status != statechart.Stopped {
			t.Errorf("%s was started for another parent, its status is %s", old, status)
		}
	})
}

func TestOnlyItsOwnParentStopsAChild(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		stop := fmt.Sprintf(`{"type":"settle.stop","$parent":{"instance":"boss/1","incarnation":%d,"child":%%q}}`, w.load(boss1).CreatedAt.UnixMilli())
		w.post(w.van(t), fmt.Sprintf(stop, "1.0"), `{"type":"settle.stop"}`)
		w.run(t)
		w.wantFamily(t, "courier active, radio active")
		w.wantParked(t, [2]string{"settle.stop", "expected the key $parent"})
		w.post(w.van(t), fmt.Sprintf(stop, "2.0"))
		w.run(t)
		w.wantFamily(t, "courier stopped, radio stopped")
	})
}

func TestAChildNameThatIsTakenIsAnError(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, `{"type":"both","to":"radio"}`)
		w.invoke()
		name := w.messages[0].Group
		start := w.messages[0].Delivery
		w.remove(start)
		w.post(name, event("add", "stranger"))
		w.run(t)
		w.post(name, start.Body)
		w.run(t)
		w.wantLog(t, boss1, "lost radio: "+name+" exists, but it is not that child of boss/1: another sender started it")
		if r := w.load(name); r.Status != statechart.Active || r.Parent != nil {
			t.Errorf("the unrelated instance is %s, a child of %+v", r.Status, r.Parent)
		}
	})
}

func TestAnEventForAChildThatIsNotThereIsParked(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, event("ship", "heavy"), `{"type":"tell","item":"fast"}`)
		w.run(t)
		w.wantParked(t, [2]string{"fast", "boss/1 sent it to its child courier/boss-1-"})
		w.post("courier/1", event("add", "a"))
		w.run(t)
		if len(w.parked) != 2 || !strings.Contains(w.parked[1].Reason, "begins with an input: only a parent starts it") {
			t.Errorf("parked %+v", w.parked)
		}
	})
}

// The forged start message names a living child of the parent, but is sent to another instance.
func TestAForgedStartMakesNoSecondActiveChild(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.invoke()
		start := w.messages[0].Delivery
		w.run(t)
		body := strings.Replace(start.Body, `,"input":{"item":"parcel"}`, "", 1)
		created := w.load(boss1).CreatedAt
		twin := instances.ChildName(instances.ID{Machine: "boss", ID: "1"}, created, "2.0", "radio").String()
		w.post("courier/free", start.Body)
		w.post(w.stored("radio")[0], body) // This other instance exists already.
		w.post(twin, body)
		w.run(t)
		w.wantFamily(t, "courier active, radio active, radio stopped") // The twin is stored as stopped.
		w.wantState(t, boss1, "shipping")
		w.wantParked(t)
	})
}
