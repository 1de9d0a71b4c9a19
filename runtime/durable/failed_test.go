package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const courier1 = "courier/1"

// courier is a machine that requests effects of every kind, and logs each permanent failure. While *broken is true, the
// chart fails on the event that reports a failure.
func (w *world) courier(broken *bool) durable.Machine {
	p := payloads()
	p[statechart.CommunicationError] = statechart.PayloadOf[statechart.CommunicationFailure]()
	claim := statechart.Alias(func(_ basket, e statechart.Event) string { return e.Payload.(item).Item })
	tellNext := statechart.SendTo("add", func(_ basket, e statechart.Event) (string, any) {
		return "order/9", map[string]string{"item": e.Payload.(item).Item}
	})
	heard := statechart.TryAssign("heard", func(b *basket, f statechart.CommunicationFailure) error {
		if *broken {
			return errors.New("bug in the chart")
		}
		b.Log = append(b.Log, fmt.Sprintf("%s to %q: %s", f.Kind, f.Target, f.Message))
		if !strings.HasPrefix(f.Effect, courier1+"@946684800000/") {
			b.Log = append(b.Log, "of "+f.Effect)
		}
		return nil
	})
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "courier", Version: 1, Initial: "idle", Payloads: p,
		On: []on{{Event: statechart.CommunicationError, Actions: do{heard}}, {Event: "add", Actions: do{keep}}},
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{
				{Event: "tell", Actions: do{keep, tell, tellNext}}, {Event: "wait", Target: "waiting"}, {Event: "ship", Actions: do{claim}},
				{Event: "hurry", Target: "resting"}, {Event: "finish", Target: "finished"}, {Event: "refuse", Actions: do{refuse}}}},
			{ID: "waiting", Tags: settled, Defer: []string{"refuse"}, On: []on{{Event: "cancel", Target: "idle"}},
				After: []after{{Delay: time.Hour, Target: "idle", Actions: do{noted("hour over")}}}},
			{ID: "resting", Tags: settled, Resolve: []resolution{{Name: "Rest", Outcome: "rests"}}},
			{ID: "finished", Type: statechart.Final},
		},
	}), durable.MachineConfig{Retention: time.Hour})
}

// inCourierWorld runs a test in a world that has the machine courier, in virtual time.
func inCourierWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(w.order(), w.courier(new(bool)))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		test(t, w)
	})
}

// refusing returns a function for world.refuse. For calls with one of these prefixes, the function returns an error
// that wraps err.
func refusing(err error, prefixes ...string) func(string) error {
	return func(call string) error {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(call, prefix) }) {
			return fmt.Errorf("no %s: %w", call, err)
		}
		return nil
	}
}

// failure is an effect that fails permanently: the events that request it, the call that AWS refuses, and the stored
// entry.
type failure struct {
	name string
	post []string
	// task is set if the event that requests the effect needs a Step Functions task with a timeout.
	task bool
	call string
	want instances.FailedEffect
	log  []string
}

func failings() []failure {
	sent := `{"item":"ball","type":"add"}`
	return []failure{
		{name: "send", post: []string{telling("order/2", "ball")}, call: "Send order/2",
			want: instances.FailedEffect{ID: "2.0", Kind: statechart.Send, Target: "order/2", Data: json.RawMessage(sent), DataBytes: len(sent)}, log: []string{"ball"}},
		{name: "schedule", post: []string{event("wait", "")}, call: "Schedule courier/1",
			want: instances.FailedEffect{ID: "2.0", Kind: statechart.Schedule, Target: "1h0m0s of waiting", Data: json.RawMessage(`{"at":"2000-01-01T01:00:00Z"}`), DataBytes: 29}},
		{name: "claim", post: []string{event("ship", "x-7")}, call: "Claim x-7",
			want: instances.FailedEffect{ID: "2.0", Kind: statechart.ClaimAlias, Target: "x-7"}},
		{name: "answer", task: true, post: []string{event("hurry", "")}, call: "Answer Rest",
			want: instances.FailedEffect{ID: "token.KEY", Kind: statechart.ResolveWaits, Target: "Rest",
				Data: json.RawMessage(`{"outcome":"rests","state":["resting"],"tags":["settled"]}`), DataBytes: 58}},
		{name: "heartbeat", task: true, call: "Schedule courier/1",
			want: instances.FailedEffect{ID: "token.KEY.0", Kind: "heartbeat", Target: "Rest", Data: json.RawMessage(`{"at":"2000-01-01T05:00:01Z"}`), DataBytes: 29}},
	}
}

// wantFailed checks the failed effects of courier/1, and the log in its context.
func (f failure) wantFailed(t *testing.T, w *world, cause error, report instances.Report) {
	t.Helper()
	r := w.load(courier1)
	if len(r.Outbox) > 0 || len(r.FailedEffects) != 1 {
		t.Fatalf("want one failed effect and no outbox, got %+v and %+v", r.FailedEffects, r.Outbox)
	}
	want, got := f.want, r.FailedEffects[0]
	want.Report, want.Error = report, fmt.Sprintf("no %s: %v", f.call, cause)
	if f.task {
		id := strings.Split(got.ID, ".")
		if len(id[1]) != 16 {
			t.Errorf("want the key of a token in the ID, got %s", got.ID)
		}
		id[1] = "KEY"
		got.ID = strings.Join(id, ".")
	}
	if late := timeOf(got.Data).Sub(timeOf(want.Data)); late > 0 && late < 2*visibilityTimeout {
		got.Data = want.Data // A redelivery applied the event, so the time is later.
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(instances.FailedEffect{}, "At", "Chain")); diff != "" {
		t.Errorf("the failed effect (-want +got):\n%s", diff)
	}
	log := f.log
	if report == instances.ReportReceived {
		log = append(slices.Clone(log), fmt.Sprintf("%s to %q: %s", want.Kind, want.Target, want.Error))
	}
	w.wantLog(t, courier1, log...)
	if text := string(w.records[courier1]); f.name == "answer" && strings.Contains(text, "secret") {
		t.Errorf("the failed effect contains the token: %s", text)
	}
}

// timeOf returns the time in the data of a failed effect, or the zero time.
func timeOf(data json.RawMessage) time.Time {
	var form struct{ At time.Time }
	_ = json.Unmarshal(data, &form)
	return form.At
}

// ask posts the events that request the effect.
func (f failure) ask(w *world) {
	if f.task {
		w.post(courier1, `{"type": "settle.wait", "$task": `+w.wait("secret-1", "Rest", 5*time.Hour, 0)+`}`)
	}
	w.post(courier1, f.post...)
}

func TestARefusedEffectFailsPermanentlyAtOnce(t *testing.T) {
	t.Parallel()
	for _, f := range failings() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			inCourierWorld(t, func(t *testing.T, w *world) {
				w.refuse = refusing(durable.ErrRefused, f.call)
				f.ask(w)
				w.post(courier1, event("add", "after"))
				f.log = append(f.log, "after")
				began := time.Now()
				w.runFor(t, time.Second)
				f.wantFailed(t, w, durable.ErrRefused, instances.ReportReceived)
				if at := w.load(courier1).FailedEffects[0].At; !at.Equal(began) || len(w.delays) > 0 {
					t.Errorf("want the effect dropped at once and no delayed delivery, got it dropped after %v and the delays %v", at.Sub(began), w.delays)
				}
				w.wantParked(t)
				if f.name == "send" { // The rest of the outbox is performed.
					w.wantLog(t, "order/9", "ball")
					if _, exists := w.records["order/2"]; exists {
						t.Error("the refused send was delivered")
					}
				}
			})
		})
	}
}

func TestADeniedEffectFailsPermanentlyAfterAnHour(t *testing.T) {
	t.Parallel()
	for _, f := range failings() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			inCourierWorld(t, func(t *testing.T, w *world) {
				w.refuse = refusing(durable.ErrDenied, f.call)
				f.ask(w)
				began := time.Now()
				w.runFor(t, time.Hour-time.Minute)
				if r := w.load(courier1); len(r.FailedEffects) > 0 || len(r.Outbox)+len(r.Tokens) == 0 {
					t.Errorf("want the effect retried for an hour, got %+v", r)
				}
				w.runFor(t, 10*time.Minute)
				f.wantFailed(t, w, durable.ErrDenied, instances.ReportReceived)
				if gaveUp := w.load(courier1).FailedEffects[0].At.Sub(began); gaveUp < time.Hour || gaveUp > time.Hour+5*time.Minute {
					t.Errorf("want the effect dropped after an hour, with a try every five minutes, got %v", gaveUp)
				}
				if tries := w.counted(f.call); tries < 15 || tries > 25 {
					t.Errorf("want about 20 tries, got %d", tries)
				}
			})
		})
	}
}

func TestAnEffectThatIsMendedInTimeDoesNotFail(t *testing.T) {
	t.Parallel()
	for _, f := range failings() {
		inCourierWorld(t, func(t *testing.T, w *world) {
			w.refuse = refusing(durable.ErrDenied, f.call)
			f.ask(w)
			w.runFor(t, 59*time.Minute)
			w.refuse = nil
			w.runFor(t, 10*time.Minute)
			if r := w.load(courier1); len(r.FailedEffects) > 0 || len(r.Outbox) > 0 {
				t.Errorf("%s: want the effect performed, got the failed effects %+v and the outbox %+v", f.name, r.FailedEffects, r.Outbox)
			}
		})
	}
}

// The consumer finds an outbox that is older than DeniedWaitMax. Its effect was never tried, or was denied once.
func TestADeniedEffectIsTriedThreeTimesAfterAnOutage(t *testing.T) {
	t.Parallel()
	for denialsMax, first := range map[int]fault{1: dieBefore, 2: none} {
		inCourierWorld(t, func(t *testing.T, w *world) {
			w.hook = faults(map[string]fault{"Send order/2 #1": first})
			denials := 0
			w.refuse = func(call string) error {
				if call == "Send order/2" && denials < denialsMax {
					denials++
					return durable.ErrDenied
				}
				return nil
			}
			w.post(courier1, telling("order/2", "ball"))
			w.invoke()
			time.Sleep(3 * time.Hour)
			w.run(t)
			w.wantLog(t, "order/2", "ball")
			if r := w.load(courier1); denials != denialsMax || len(r.FailedEffects) > 0 {
				t.Errorf("want the effect performed by the third delivery, got %d denials and %+v", denials, r.FailedEffects)
			}
		})
	}
}

// In each run, one fault hits one call.
func TestAPermanentFailureIsReportedOnceWhateverCallFails(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{durable.ErrRefused, durable.ErrDenied} {
		for _, f := range failings() {
			t.Run(fmt.Sprint(f.name, " ", cause), func(t *testing.T) {
				t.Parallel()
				calls := 0
				for n := 0; n <= calls; n++ {
					for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
						inCourierWorld(t, func(t *testing.T, w *world) {
							w.config.DeniedWaitMax = 10 * time.Second
							w.refuse = refusing(cause, f.call)
							made := 0
							w.hook = func(string) fault {
								if made++; made == n {
									return what
								}
								return none
							}
							f.ask(w)
							w.runFor(t, 2*time.Hour)
							if calls = max(calls, made); n == 0 {
								calls = made
							}
							f.wantFailed(t, w, cause, instances.ReportReceived)
							if f.name == "send" {
								w.wantLog(t, "order/9", "ball")
							}
							if t.Failed() {
								t.Fatalf("%v at call %d of %v", what, n, w.calls)
							}
							w.wantSoundBut(t, f)
						})
					}
				}
				if calls < 5 {
					t.Errorf("only %d calls", calls)
				}
			})
		}
	}
}

// wantSoundBut does the checks of wantSound for a world in which the effect failed permanently.
func (w *world) wantSoundBut(t *testing.T, f failure) {
	t.Helper()
	for _, problem := range w.problems() {
		if problem != fmt.Sprintf("committed but never performed: [%q]", courier1+"@946684800000/"+f.want.ID) {
			t.Error(problem)
		}
	}
	w.wantParked(t)
}
