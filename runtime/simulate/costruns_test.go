package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// costRun is a run whose cost docs/cost.md shows. Its final state must match the sent events exactly.
type costRun struct {
	name string
	// historyMax is how many transitions instances keep; 0 means the default.
	historyMax int
	// events is the number of events at full scale, and atLeast is the minimum at any scale.
	events, atLeast int
	// caches makes the consumer's only process keep copies of the items that it has stored.
	caches bool
	// play plays n events. Usage before meter.reset does not count.
	play func(w *world, n int)
}

// scaled returns the number of events to play. It is a multiple of ten, the most events in one call. For playMany, it
// is also a multiple of its rounds.
func (r costRun) scaled() int {
	unit := 10
	if r.events%(rounds*unit) == 0 {
		unit *= rounds
	}
	return max(r.atLeast, r.events/costScale()/unit*unit)
}

// rounds is how many events playMany sends to each instance.
const rounds = 3

// textBytes is the size of the text for an item of 1 KB, or of 2 KB with a full history.
const textBytes = 404

// effectTextBytes is the size of the text for an item of 1 KB with an effect in its outbox.
const effectTextBytes = 215

// payloadBytes is the size of the texts of the runs with large events.
const payloadBytes = 100_000

var costRuns = []costRun{
	{"1 KB, one event at a time", 3, 1000, 50, false, func(w *world, n int) { w.playAlone(n, textBytes, "add") }},
	{"the same, applied by one process", 3, 1000, 50, true, func(w *world, n int) { w.playAlone(n, textBytes, "add") }},
	{"the first, 20 transitions kept", 0, 1000, 50, false, func(w *world, n int) { w.playAlone(n, textBytes, "add") }},
	{"1 KB, ten events folded", 3, 1000, 50, false, func(w *world, n int) { w.playFolded(n, 10, textBytes) }},
	{"1 KB, two events folded", 3, 1000, 50, false, func(w *world, n int) { w.playFolded(n, 2, textBytes) }},
	{"1 KB, half of them send the other half", 3, 1000, 50, false, (*world).playSends},
	{"1 KB, half of them arm a timer of a minute", 3, 200, 20, false, func(w *world, n int) { w.playTimers(n, 60) }},
	{"1 KB, half of them arm a timer of a day", 3, 200, 20, false, func(w *world, n int) { w.playTimers(n, 24*60*60) }},
	{"100 KB events; the context keeps their digest", 0, 200, 20, false, func(w *world, n int) { w.playLarge(n, "add", 0) }},
	{"100 KB events; the context keeps the latest", 0, 200, 20, false, func(w *world, n int) { w.playLarge(n, "keep", payloadBytes) }},
	{"10,000 events to one instance, sent in tens", 0, 10_000, 100, false, func(w *world, n int) { w.playFolded(n, 10, 0) }},
	{"10,000 instances, a start and 2 events each, sent in tens", 0, 30_000, 60, false, (*world).playMany},
}

// TestRunsEndInTheStateOfTheirEvents plays the runs to their end, and reports their cost.
func TestRunsEndInTheStateOfTheirEvents(t *testing.T) {
	t.Parallel()
	used := make([]usage, len(costRuns))
	t.Run("play", func(t *testing.T) {
		for i, run := range costRuns {
			t.Run(run.name, func(t *testing.T) {
				t.Parallel()
				m := &meter{}
				n := run.scaled()
				inWorld(t, options{meter: m, historyMax: run.historyMax, caches: run.caches, more: []durable.Machine{tallying()}}, func(w *world) {
					run.play(w, n)
					used[i] = m.usage()
					w.wantQueuesEmpty()
				})
				if used[i].events != n || used[i].refused != 0 {
					t.Errorf("want %d events delivered, each once, and no failed condition; got %+v", n, used[i])
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	wantCallsPerEvent(t, used)
	if scale := costScale(); scale > 1 {
		t.Logf("played with every number of events divided by %d", scale)
	}
	t.Logf("\n%s", eventTable(used))
	wantInDocument(t, map[string]string{"events": eventTable(used)})
}

// wantCallsPerEvent checks the fixed cost of every event.
func wantCallsPerEvent(t *testing.T, used []usage) {
	t.Helper()
	for i, want := range map[int]usage{
		0: {gets: 10, puts: 10, read: 10, write: 10, fifo: 30, invocations: 10},
		// The process has a copy of the item.
		1: {puts: 10, write: 10, fifo: 30, invocations: 10},
		// Ten events are applied in one turn.
		3: {gets: 1, puts: 1, read: 1, write: 1, fifo: 3, invocations: 1},
		4: {gets: 5, puts: 5, read: 5, write: 5, fifo: 15, invocations: 5},
		// The next event clears the outbox. The receiver's item contains the IDs of 50 sends, so writing it takes three
		// units.
		5:  {gets: 10, puts: 10, read: 10, write: 20, fifo: 30, invocations: 10},
		8:  {gets: 10, puts: 10, read: 10, write: 20, fifo: 50, invocations: 10},
		10: {gets: 1, puts: 1, read: 1, write: 2, fifo: 3, invocations: 1},
		// Ten instances share a batch of the queue, but each needs its own read and write.
		11: {gets: 10, puts: 10, read: 10, write: 10, fifo: 3, invocations: 1},
	} {
		got, events := used[i], used[i].events
		got.events = 0
		scaled := usage{gets: want.gets * events / 10, puts: want.puts * events / 10, updates: want.updates * events / 10, fifo: want.fifo * events / 10,
			invocations: want.invocations * events / 10, read: want.read * float64(events) / 10, write: want.write * float64(events) / 10}
		if got != scaled {
			t.Errorf("%s: want %+v for %d events, got %+v", costRuns[i].name, scaled, events, got)
		}
	}
	for i, dollarsMax := range map[int]float64{0: 2.60, 4: 2.00} {
		if got := used[i].dollars().total(); got > dollarsMax {
			t.Errorf("%s: want at most $%.2f a million events, got $%.4f", costRuns[i].name, dollarsMax, got)
		}
	}
}

// fill starts instances with that many bytes of text, and plays events until their histories are full.
func (w *world) fill(bytes int, instances ...string) (events []sentEvent) {
	for i := range 21 {
		for _, instance := range instances {
			e := sentEvent{instance, "add", number{N: 1_000_001 + i}}
			if i == 0 {
				e.typ, e.Text = "keep", strings.Repeat("x", bytes)
			}
			w.sendEvents(e)
			synctest.Wait()
			events = append(events, e)
		}
	}
	w.options.meter.reset()
	return events
}

// wantItemOf1KB checks that writing the item takes one write unit, and that the item almost fills this unit.
func (w *world) wantItemOf1KB(instance string) {
	w.t.Helper()
	if bytes := itemBytes(w.item(instance)); w.options.historyMax > 0 && !w.options.indexed && (bytes <= 1000 || bytes > 1024) {
		w.t.Errorf("want an item of 1,001 to 1,024 bytes, got %d", bytes)
	}
}

// playAlone sends events of a type one by one, so that no call, poll or turn contains two of them.
func (w *world) playAlone(n, bytes int, typ string) {
	const instance = "tally/1"
	events := w.fill(bytes, instance)
	for i := range n {
		e := sentEvent{instance, typ, number{N: 1_100_000 + i}}
		w.sendEvents(e)
		synctest.Wait()
		events = append(events, e)
	}
	w.wantApplied(instance, events, int64(len(events)))
	w.wantItemOf1KB(instance)
}

// playFolded sends events to one instance, `fold` events per call. A turn applies the events of one call.
func (w *world) playFolded(n, fold, bytes int) {
	const instance = "tally/1"
	events := w.fill(bytes, instance)
	alone := len(events)
	for i := range n {
		events = append(events, sentEvent{instance, "add", number{N: 1_100_000 + i}})
	}
	for batch := range slices.Chunk(events[alone:], fold) {
		w.sendEvents(batch...)
		synctest.Wait()
	}
	w.wantApplied(instance, events, int64(alone+n/fold))
	if bytes > 0 {
		w.wantItemOf1KB(instance)
	}
}

// playSends sends events to one instance. For each of them, the instance sends an event to another instance. First,
// playSends fills the receiver's list of remembered IDs.
func (w *world) playSends(n int) {
	const sender, receiver = "tally/1", "tally/2"
	events := w.fill(effectTextBytes, sender, receiver)
	bySender := slices.DeleteFunc(slices.Clone(events), func(e sentEvent) bool { return e.to != sender })
	byReceiver := slices.DeleteFunc(slices.Clone(events), func(e sentEvent) bool { return e.to != receiver })
	const remembered = 50
	for i := range remembered + n/2 {
		if i == remembered {
			w.options.meter.reset()
		}
		e := sentEvent{sender, "tell", number{N: 1_100_000 + i, To: receiver}}
		w.sendEvents(e)
		synctest.Wait()
		bySender = append(bySender, e)
		byReceiver = append(byReceiver, sentEvent{receiver, "add", number{N: e.N}})
	}
	w.wantApplied(sender, bySender, int64(len(bySender)))
	w.wantApplied(receiver, byReceiver, int64(len(byReceiver)))
}

// playTimers makes every event send another one later.
func (w *world) playTimers(n, seconds int) {
	const instance = "tally/1"
	events := w.fill(effectTextBytes, instance)
	for i := range n / 2 {
		e := sentEvent{instance, "later", number{N: 1_100_000 + i, Seconds: seconds}}
		w.sendEvents(e)
		time.Sleep(time.Duration(seconds)*time.Second + time.Minute)
		events = append(events, e, sentEvent{instance, "after add", number{N: e.N}}) // the names of the events in the history
	}
	w.wantApplied(instance, events, int64(len(events)))
}

// playLarge sends events with different texts.
func (w *world) playLarge(n int, typ string, filled int) {
	const instance = "tally/1"
	events := w.fill(filled, instance)
	for i := range n {
		e := sentEvent{instance, typ, number{N: 1_100_000 + i, Text: fmt.Sprint(i, strings.Repeat("y", payloadBytes))[:payloadBytes]}}
		w.sendEvents(e)
		synctest.Wait()
		events = append(events, e)
	}
	w.wantApplied(instance, events, int64(len(events)))
}

// playMany starts instances, ten per call, and sends two more events to each.
func (w *world) playMany(n int) {
	for round := range rounds {
		var batch []sentEvent
		for i := range n / rounds {
			batch = append(batch, sentEvent{fmt.Sprintf("tally/%d", i), "add", number{N: 1_000_000*round + i}})
			if len(batch) == 10 {
				w.sendEvents(batch...)
				batch = nil
			}
		}
		synctest.Wait()
	}
	for i := range n / rounds {
		instance := fmt.Sprintf("tally/%d", i)
		w.wantApplied(instance, []sentEvent{{instance, "add", number{N: i}}, {instance, "add", number{N: 1_000_000 + i}}, {instance, "add", number{N: 2_000_000 + i}}}, rounds)
	}
}
