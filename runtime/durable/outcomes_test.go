package durable_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// toldOf is a case: the deliveries, and the observations that they cause.
type toldOf struct {
	// play drives the world. If it is nil, one invocation receives the posted events.
	play func(t *testing.T, w *world)
	// post lists the events sent to order/1.
	post []string
	want []string
}

// again runs the function the given number of times, two minutes apart.
func (w *world) again(times int) {
	for range times {
		w.invoke()
		time.Sleep(2 * time.Minute)
	}
}

func outcomes() map[string]toldOf {
	const idled = "applied add to order/1 revision 1 [] to [idle] attempts 1 after 0s settled true resumed false"
	return map[string]toldOf{
		"an event that is ignored": {
			post: []string{event("add", "a"), event("cancel", "")},
			want: []string{
				"committed 1 with 0 effects", idled,
				"applied cancel to order/1 revision 1 [idle] to [idle] attempts 1 after 0s settled true resumed false",
			},
		},
		"an event that the chart fails on": {
			post: []string{event("add", "a"), event("refuse", "b")},
			play: func(_ *testing.T, w *world) { w.again(4) },
			want: []string{
				"committed 1 with 0 effects", idled, "retried after 1s",
				"committed 2 with 0 effects", "retried after 2s", // This commit stores the count of the second try.
				"committed 3 with 0 effects", "committed 4 with 1 effects", "parked refuse of order/1", "performed park.delivery, failed false",
			},
		},
		"an event that begins an instance, and that the chart fails on": {
			post: []string{event("refuse", "a")},
			play: func(_ *testing.T, w *world) { w.again(4) },
			want: []string{"retried after 1s", "retried after 2s", "parked refuse of order/1"},
		},
		"an instance that cannot go on": {
			post: []string{event("doom", "")},
			play: func(_ *testing.T, w *world) {
				w.third["doom"] = failing(9, errors.New("busy"))
				w.again(4)
			},
			want: []string{
				"committed 1 with 0 effects", "applied doom to order/1 revision 1 [] to [doomed] attempts 1 after 0s settled false resumed false", "retried after 1s",
				"unsettled for 2m0s, outbox of 0s", "committed 2 with 0 effects", "retried after 2s",
				"unsettled for 4m0s, outbox of 0s", "committed 3 with 0 effects", "committed 4 with 0 effects",
			},
		},
		"events that wait behind one that fails": {
			post: []string{event("add", "a"), event("refuse", "b"), event("add", "c"), event("add", "d")},
			want: []string{"committed 1 with 0 effects", idled, "retried after 1s with 2 behind it"},
		},
		"an attempt that cannot be counted": {
			post: []string{event("add", "a")},
			play: func(_ *testing.T, w *world) {
				w.invoke()
				w.hook = faults(map[string]fault{"Load order/1 #1": failBefore, "Commit order/1 #2": failBefore})
				w.post("order/1", event("charge", ""))
				w.again(2)
			},
			want: []string{
				"committed 1 with 0 effects", idled, "retried after 1s",
				"committed 2 with 0 effects", "committed 3 with 0 effects", "retried after 2s", // The two commits store the count of the second try, and its end.
			},
		},
		"an instance that another event settles": {
			play: func(_ *testing.T, w *world) {
				w.third["charge"] = failing(1, errors.New("busy"))
				w.deliver("one queue", "order/1", [2]string{"1", event("charge", "")})
				time.Sleep(settlerWaitMax)
				w.handle([]durable.Delivery{received("another queue", "order/1", "1", event("cancel", ""), 11)}, functionTimeout)
			},
			want: []string{
				"committed 1 with 0 effects",
				"applied charge to order/1 revision 1 [] to [charging] attempts 1 after 0s settled false resumed false", "retried after 5s",
				"unsettled for 15m0s, outbox of 0s", "committed 2 with 0 effects", "committed 3 with 0 effects", // The two commits store the count of the try, and the end of the service.
				"applied resume to order/1 revision 3 [charging] to [idle] attempts 11 after 0s settled true resumed true",
				"committed 4 with 0 effects", "committed 5 with 0 effects", "applied cancel to order/1 revision 5 [idle] to [idle] attempts 11 after 0s settled true resumed false",
			},
		},
		"an instance that an event of an unknown type settles": {
			play: func(_ *testing.T, w *world) {
				w.third["charge"] = failing(1, errors.New("busy"))
				w.deliver("one queue", "order/1", [2]string{"1", event("charge", "")})
				time.Sleep(settlerWaitMax)
				w.handle([]durable.Delivery{received("another queue", "order/1", "1", fmt.Sprintf(`{"type": %q}`, strings.Repeat("long", 9999)), 11)}, functionTimeout)
			},
			want: []string{
				"committed 1 with 0 effects",
				"applied charge to order/1 revision 1 [] to [charging] attempts 1 after 0s settled false resumed false", "retried after 5s",
				"unsettled for 15m0s, outbox of 0s", "committed 2 with 0 effects", "committed 3 with 0 effects",
				"applied resume to order/1 revision 3 [charging] to [idle] attempts 11 after 0s settled true resumed true",
				"committed 4 with 1 effects", "parked " + strings.Repeat("long", 63) + "l… of order/1", // The type is truncated to the maximum length of a type.
				"performed park.delivery, failed false",
			},
		},
	}
}

// The observer reports each outcome once. An event that failed, was parked or was dropped is not reported as applied.
func TestAnObserverHearsOfEachOutcomeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range outcomes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), &heard{}
				w.config.Observer = h.observer()
				w.post("order/1", c.post...)
				if c.play == nil {
					w.invoke()
				} else {
					c.play(t, w)
				}
				h.want(t, c.want...)
			})
		})
	}
}

// A child hangs in a service, and its parent leaves the child's state.
func TestTheStopOfAChildThatCannotGoOnIsTold(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.third["hang"] = hangs
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		w.post(van, event("wait", ""))
		w.runFor(t, time.Hour)
		h := &heard{}
		w.config.Observer = durable.Observer{Applied: h.observer().Applied, Parked: h.observer().Parked}
		w.post(boss1, event("cancel", ""))
		w.run(t)
		h.want(t,
			"applied cancel to boss/1 revision 2 [shipping] to [idle] attempts 1 after 0s settled true resumed false",
			"applied settle.stop to "+van+" revision 11 [stuck] to [stuck] attempts 3 after 0s settled true resumed false",
		)
	})
}

// A loop without an observer logs transitions at level INFO. A loop with an observer logs them at level DEBUG.
func TestTransitionsAreInTheLogOfWhoHearsOfNoEvents(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]bool{"unobserved": false, "observed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), &heard{}
				var log strings.Builder
				w.config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				want := "INFO"
				if observed {
					w.config.Observer, want = h.observer(), "DEBUG"
				}
				w.post("order/1", event("add", "a"))
				w.invoke()
				lines := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "msg=transition") })
				if len(lines) != 1 || !strings.Contains(lines[0], "level="+want+" ") || !strings.HasSuffix(lines[0], "instance=order/1 event=add from=[idle] to=[idle] ignored=false revision=1") {
					t.Errorf("got the lines %q, want one of level %s", lines, want)
				}
			})
		})
	}
}

// The observed duration counts from the last step. A retry that writes the item is not a step, and neither is an
// ignored event.
func TestAnInstanceIsUnsettledSinceItsLastStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id    string
		spoil spoiler
		want  []string
	}{
		"in a state that an event has led to": {id: "order/1", want: []string{"unsettled for 10m0s, outbox of 0s", "unsettled for 20m0s, outbox of 0s"}},
		"in its first state":                  {id: "boot/1", want: []string{"unsettled for 10m0s, outbox of 0s", "unsettled for 20m0s, outbox of 0s"}},
		"with an event ignored since": {
			id: "order/1",
			spoil: edited("order/1", func(r *instances.Record) {
				r.History = append(r.History, instances.Transition{At: r.UpdatedAt.Add(10 * time.Minute), Event: "note", Ignored: true})
			}),
			want: []string{"unsettled for 10m0s, outbox of 0s", "unsettled for 20m0s, outbox of 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), &heard{}
				w.config.Observer = durable.Observer{Loaded: h.observer().Loaded}
				w.third["boot"], w.third["poll"] = failing(99, errors.New("busy")), failing(99, errors.New("busy"))
				w.post(c.id, event("poll", ""))
				for try := range 3 {
					if try == 1 && c.spoil != nil {
						c.spoil(w)
					}
					w.invoke()
					time.Sleep(10 * time.Minute)
				}
				h.want(t, c.want...)
			})
		})
	}
}
