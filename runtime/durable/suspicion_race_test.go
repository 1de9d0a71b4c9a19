package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// K: an operator's write falls before each call of the consumer. In the second half, the consumer freezes at that call until another
// process has handled all messages.
func TestSuspicionAnOperationRacesACommit(t *testing.T) {
	t.Parallel()
	type target struct{ on, op, state string }
	var targets []target
	for _, on := range []string{boss1, "van"} {
		for _, op := range []string{"stop", "terminate", "keep"} {
			targets = append(targets, target{on, op, ""})
		}
	}
	targets = append(targets, target{boss1, "move", "idle"}, target{boss1, "move", "shipping"}, target{boss1, "move", "gone"},
		target{"van", "move", "driving"}, target{"van", "move", "stuck"}, target{"van", "move", "boarding"}, target{"van", "move", "arrived"})
	scripts := map[string][]string{
		"ship":   {ship},
		"finish": {ship, "", event("finish", "")},
		"cancel": {ship, "", event("cancel", "")},
		"again":  {ship, "", event("again", "x")},
		"tell":   {ship, "", event("tell", "note")},
		"doom":   {ship, "", event("doom", "")},
	}
	total := 0
	for _, tg := range targets {
		for name, script := range scripts {
			for _, freezes := range []bool{false, true} {
				for nth := 1; nth < 60; nth++ {
					done := false
					t.Run(fmt.Sprintf("%s/%s %s/%s/%v/%d", tg.on, tg.op, tg.state, name, freezes, nth), func(t *testing.T) {
						inFamily(t, func(t *testing.T, w *world) {
							total++
							done = !raceOnce(t, w, tg.on, instances.Operation{Kind: instances.OperationKind(tg.op), State: tg.state}, script, nth, freezes)
						})
					})
					if done {
						break
					}
				}
			}
		}
	}
	t.Logf("%d runs", total)
}

func raceOnce(t *testing.T, w *world, on string, op instances.Operation, script []string, nth int, freezes bool) (happened bool) {
	t.Helper()
	calls, applied := 0, ""
	w.third["hang"] = func() service { return lasting(time.Second, "unhung") }()
	w.hook = func(call string) fault {
		if happened {
			return none
		}
		if calls++; calls != nth {
			return none
		}
		happened = true
		id := on
		if on == "van" {
			for name := range w.records {
				if strings.HasPrefix(name, "courier/") && w.load(name).Status == statechart.Active {
					id = name
				}
			}
		}
		record := w.load(id)
		if record.Revision > 0 {
			op.At, op.By = time.Now(), "operator"
			next, _, err := durable.Operate(w.machines, record, op)
			if err == nil {
				w.store(next)
				w.ledger.commit(next)
				w.enqueueRaw(id, `{"type": "settle.timer", "timer": "resume"}`)
				applied = fmt.Sprintf("%s of %s at revision %d before %s", op.Kind, id, record.Revision, call)
			} else {
				applied = err.Error()
			}
		}
		if freezes && !strings.HasPrefix(call, "Serve") && !strings.HasPrefix(call, "Acknowledge") {
			w.mu.Unlock()
			time.Sleep(visibilityTimeout + time.Second)
			for range 5 {
				w.invoke()
				time.Sleep(time.Second)
			}
			w.mu.Lock()
		}
		return none
	}
	for _, body := range script {
		if body == "" {
			w.run(t)
			for _, name := range w.stored("courier") {
				if w.load(name).Status == statechart.Active {
					w.post(name, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
				}
			}
			continue
		}
		w.post(boss1, body)
	}
	w.run(t)
	w.hook = nil
	w.wantParkedFew(t, applied)
	if problems := w.problems(); len(problems) > 0 {
		t.Errorf("%s: %q", applied, problems)
	}
	boss := w.load(boss1)
	var couriers, radios []string
	for _, name := range w.stored("courier") {
		couriers = append(couriers, string(w.load(name).Status))
	}
	for _, name := range w.stored("radio") {
		radios = append(radios, string(w.load(name).Status))
	}
	actives := func(all []string) (n int) {
		for _, s := range all {
			if s == "active" {
				n++
			}
		}
		return n
	}
	want := 0
	if boss.Status == statechart.Active && slices.Equal(boss.State, []string{"shipping"}) {
		want = 1
	}
	if actives(couriers) != want || actives(radios) != want {
		t.Errorf("%s: boss %s %v, couriers %v, radios %v", applied, boss.Status, boss.State, couriers, radios)
	}
	if _, posted := w.workflows["task"]; posted {
		answered := w.answers("task")
		if want == 0 && answered == "waits" {
			t.Errorf("%s: the task waits", applied)
		}
	}
	for _, name := range append(w.stored("courier"), boss1) {
		r := w.load(name)
		if op.Kind == instances.Keep && r.Kept && !r.ExpireAt.IsZero() {
			t.Errorf("%s: kept %s expires at %v", applied, name, r.ExpireAt)
		}
		if strings.HasPrefix(name, "courier") && !r.Kept && r.Status != statechart.Active && r.ExpireAt.IsZero() {
			t.Errorf("%s: %s is %s and never expires", applied, name, r.Status)
		}
	}
	return happened
}

// wantParkedFew allows events to children that have ended.
func (w *world) wantParkedFew(t *testing.T, applied string) {
	t.Helper()
	for _, p := range w.parked {
		t.Errorf("%s: parked %q: %s", applied, p.Body, p.Reason)
	}
}
