package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAStartThatComesAfterTheStopIsStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		var start durable.Delivery
		w.post(boss1, ship)
		w.invoke()
		start = w.messages[0].Delivery
		w.remove(start) // The queue drops the start after too many receives.
		w.post(boss1, event("cancel", ""))
		w.run(t)
		w.wantFamily(t, "")
		w.post(start.Group, start.Body) // An operator sends it again.
		w.run(t)
		// The child is stored as stopped, so that a frozen process cannot store it as active. It has no radio.
		w.wantFamily(t, "courier stopped")
		w.post(boss1, ship)
		w.run(t)
		w.post(start.Group, start.Body)
		w.run(t)
		w.wantFamily(t, "courier active, courier stopped, radio active")
		w.wantParked(t)
	})
}

func TestAStartThatNoParentHasSentLeavesNothing(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, event("add", "a"))
		w.run(t)
		w.post("courier/free", fmt.Sprintf(`{"type": "settle.start", "$parent": {"instance": "boss/1", "incarnation": %d, "child": "1.0"}, "input": {"item": "first"}}`, w.load(boss1).CreatedAt.UnixMilli()))
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
		w.post(start.Group, start.Body) // The parent of the same name lists a child with the same key.
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

// The forged start names a living child of the parent, but is sent to another instance.
func TestAForgedStartMakesNoSecondChild(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.invoke()
		start := w.messages[0].Delivery
		w.run(t)
		body := strings.Replace(start.Body, `,"input":{"item":"parcel"}`, "", 1)
		created := w.load(boss1).CreatedAt
		twin := durable.ChildName(durable.InstanceID{Machine: "boss", ID: "1"}, created, "2.0", "radio").String()
		w.post("courier/free", start.Body)
		w.post(w.stored("radio")[0], body) // Another instance that exists.
		w.post(twin, body)
		w.run(t)
		w.wantFamily(t, "courier active, radio active")
		w.wantState(t, boss1, "shipping")
		w.wantParked(t)
	})
}
