package simulate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// derivedID returns the ID of an effect, made unique across all instances as in docs/adr/0003.
func derivedID(instance string, createdAt time.Time, id string) string {
	return fmt.Sprintf("%s@%d/%s", instance, createdAt.UnixMilli(), id)
}

// replay is the sequential model of one instance. It applies the accepted messages of the queues to the chart: each
// once, in the order of its queue, at the time in the instance's history. If the order between two queues is free, it
// searches for an order that agrees with the history.
type replay struct {
	simulation  *simulation
	name        string
	machine     durable.Machine
	record      instances.Record
	queues      [][]accepted
	messages    []accepted // the messages of all queues
	rescheduled []accepted // the messages that the loop rescheduled because they had killed processes
	// tried is shared by all copies of the replay.
	tried *tried

	instance  durable.Instance
	startedAt time.Time
	at        int // an index into the history
	seen      map[string]bool
	recent    []string                   // the IDs of the last events, and the places of events without an ID that were sent again
	sends     map[string]string          // the receiver of each sent event, by $id
	tokens    map[string]wait            // by token
	spawned   map[string]json.RawMessage // by name, the input of each child that was requested
	left      map[string]time.Time       // by name, when the instance stopped waiting for the child
	// awaited has the workflows whose ends the instance awaits, and `asked` has all workflows that it has requested.
	// The keys are suffixes of the executions' names.
	awaited, asked                                        map[string]string
	aliases                                               map[string]bool // the aliases that the instance has claimed and neither lost nor released
	failures                                              map[string]bool // the effects whose failure the chart received
	ends                                                  map[string]*sfn.DescribeExecutionOutput
	migrated                                              int  // see trail
	began                                                 bool // whether the current message started the instance
	isStopped                                             bool // an operator is ending the instance
	isKept                                                bool // an operator keeps the item
	failed                                                bool // a service failed; the model does not know the reason, because the loop words it
	expired, looked, taken, again, unmigrated, late, busy bool // see choice
}

// finish compares the end of the history with the final state of the model.
func (r *replay) finish() error {
	if r.at != len(r.record.History) {
		return fmt.Errorf("the history has %d steps without a message, from %+v on", len(r.record.History)-r.at, r.record.History[r.at])
	}
	if r.instance == nil {
		if r.record.Revision != 0 {
			return fmt.Errorf("there is an item without a message: %+v", r.record)
		}
		return nil
	}
	r.rearm()
	r.migrate()
	if !r.instance.Settled() {
		return fmt.Errorf("it is not settled at the end: it is in %v", r.instance.State())
	}
	left := func(timer statechart.Timer) bool {
		return !r.simulation.ledger.failed[derivedID(r.name, r.record.CreatedAt, timer.ID)]
	}
	if timers := r.instance.Timers(); slices.ContainsFunc(timers, left) {
		return fmt.Errorf("timers have not fired: %+v", timers)
	}
	if err := r.checkAliases(); err != nil {
		return err
	}
	for id, to := range r.sends { // in a wrong order of deferred events, the instance sends an event that never arrived
		if len(r.queues) > 1 && r.simulation.arrivals[id] != to && !r.simulation.ledger.failed[id] {
			return fmt.Errorf("the event %s never arrived at %s", id, to)
		}
	}
	for _, task := range r.tokens {
		if err := task.check(r.ends[task.execution]); err != nil {
			return err
		}
	}
	return r.checkStored()
}

// consume runs one message through the chart.
func (r *replay) consume(message accepted) error {
	r.began = false
	r.migrate()
	at, reasons := r.at, r.parked(message)
	if err := r.switchBuild(len(reasons) > 0 && !r.late); err != nil {
		return err
	}
	event, skip, reason := r.examine(message)
	if skip || message.from != "" && r.seen[message.place()] && !r.again {
		if len(reasons) > 0 && skip && len(r.queues) == 1 {
			return fmt.Errorf("it was parked, but should be skipped: %s", reasons[0])
		}
		return nil
	}
	if reason == nil && len(reasons) > 0 && strings.Contains(reasons[0], noEnd) {
		// The message used up its tries: see checkInnocents. The instance may nevertheless have started with it.
		if strings.HasPrefix(event.Type, statechart.ReservedPrefix) && event.Type != "settle.start" {
			return fmt.Errorf("it was parked, and not scheduled again: %s", reasons[0])
		}
		if r.instance == nil && r.beganWith(message) {
			if err := r.startWith(message); err != nil {
				return err
			}
			return r.settle()
		}
		return nil
	}
	if reason == nil && r.instance == nil && len(reasons) > 0 && !r.beganWith(message) && message.isHopeless() {
		return nil // the instance that the event would start was never stored
	}
	if reason == nil {
		must, before := r.mustReplay(), r.at
		reason = r.apply(event, message)
		if must && reason == nil && (r.at > before || !isPeriodic(event.Type)) {
			return differ("it overtakes deferred events")
		}
	}
	if reason == nil {
		// An event that was parked may be delivered again once its instance exists, or once a version that accepts it
		// is deployed. That delivery can be applied, unless a commit asked to park the event.
		isStopped := r.record.Parent != nil && r.instance.Status() != statechart.Active // A start message that arrives after the stop message stores the child as stopped.
		if len(reasons) > 0 && (r.isParkedByCommit(message) || !r.late && r.simulation.plan.queues == 1 && !r.isMended(message) && !isStopped) {
			return fmt.Errorf("it was parked, but can be applied: %s", reasons[0])
		}
		r.remember(event.ID, message)
		return r.settle()
	}
	var different *differenceError
	if errors.As(reason, &different) {
		return different
	}
	if r.began && !r.beganWith(message) {
		r.instance, r.at = nil, at // the instance that this event started was not stored, because no service ran
	}
	if event.Type == statechart.TimerEvent {
		return fmt.Errorf("the firing of a timer failed: %w", reason)
	}
	if len(reasons) == 0 {
		return fmt.Errorf("it should be parked, but was not: %w", reason)
	}
	if event.Type == durable.WaitEvent {
		r.parkTask(message)
	}
	return nil
}

// parked returns the reasons for which a message was parked, one for each time.
func (r *replay) parked(message accepted) []string {
	return r.simulation.ledger.parked[message.parkingID()]
}

// isParkedByCommit reports whether a commit asked to park a message.
func (r *replay) isParkedByCommit(message accepted) bool {
	return r.simulation.ledger.parkings[message.parkingID()]
}

// beganWith reports whether the message started the stored instance.
func (r *replay) beganWith(message accepted) bool {
	return message.sent == fmt.Sprint(r.record.CreatedAt.UnixMilli())
}

// isMended reports whether only the first version fails on the message, and the instance is on the new version.
func (r *replay) isMended(message accepted) bool {
	return strings.Contains(message.body, failing) && r.machine.Version() == newVersion
}

// differenceError reports a difference between the history and the model.
type differenceError struct{ text string }

func (e *differenceError) Error() string { return e.text }

func differ(format string, args ...any) error {
	return &differenceError{fmt.Sprintf(format, args...)}
}

// head is the part of a message that the model uses.
type head struct {
	ID                    string `json:"$id"`
	Type, Name, Execution string
	Alias, Effect         string
	Token                 string
	Incarnation           int64 `json:"$incarnation"`
	Task                  *struct {
		Token, Name, Execution string
	} `json:"$task"`
}

// examine decides whether a message is applied, skipped, or parked for a reason, according to the table in
// docs/guarantees.md.
func (r *replay) examine(message accepted) (event statechart.Event, skip bool, reason error) {
	var head head
	if err := json.Unmarshal([]byte(message.body), &head); err != nil {
		return event, false, err
	}
	ours := r.instance != nil && head.Incarnation == r.record.CreatedAt.UnixMilli()
	switch head.Type {
	case "settle.start", "settle.stop", "settle.child":
		return r.examineFamily(head, message)
	case "settle.execution.ended", "settle.execution", "settle.effect.failed":
		return statechart.Event{Type: head.Type}, !ours, nil
	case "settle.alias.taken":
		return statechart.Event{Type: head.Type, ID: head.ID}, !ours || r.seen[head.ID], nil
	case "settle.wait":
		event = statechart.Event{Type: head.Type, ID: "task/" + keyOf(head.Task.Token)}
		reason = r.checkBegins(head.Type)
		if resolves := r.machine.Describe().Resolves; reason == nil && len(resolves) > 0 && !slices.Contains(resolves, head.Task.Name) {
			reason = fmt.Errorf("the chart answers no task named %q", head.Task.Name)
		}
		return event, r.seen[event.ID], reason
	case "settle.token", "settle.token.expired":
		return statechart.Event{Type: head.Type, ID: head.ID}, !ours || head.ID != "" && r.seen[head.ID], nil
	}
	event, reason = r.machine.Decode([]byte(message.body))
	if reason == nil && event.Type != statechart.TimerEvent {
		reason = r.checkAddressee(message)
	}
	switch {
	case reason != nil: // Another build may have applied the event.
		return event, head.ID != "" && r.seen[head.ID] && !r.again, reason
	case event.Type == statechart.TimerEvent:
		known := ours && slices.ContainsFunc(r.instance.Timers(), func(timer statechart.Timer) bool { return timer.ID == event.Timer })
		return event, !known, nil
	default:
		return event, r.seen[event.ID] && !r.again, nil
	}
}

// apply applies an event from outside, at the time in the history.
func (r *replay) apply(event statechart.Event, message accepted) error {
	r.began = r.instance == nil
	if r.began && r.isStoppedAtStart() {
		return r.stopAtStart()
	}
	if r.began {
		if err := r.startWith(message); err != nil {
			return err
		}
		if err := r.settle(); err != nil {
			return err
		}
		r.migrate()
	}
	var head head
	if err := json.Unmarshal([]byte(message.body), &head); err != nil {
		return err
	}
	switch event.Type {
	case "settle.alias.taken":
		return r.loseAlias(head.Alias)
	case "settle.start":
		return nil // the event only starts the instance
	case "settle.stop":
		return r.stop()
	case "settle.child":
		return r.endOfChild(message)
	case "settle.effect.failed":
		return r.reportFailed(head.Effect)
	case "settle.execution.ended", "settle.execution":
		return r.endOfExecution(message, r.looked)
	case "settle.wait":
		return r.addTask(head)
	case "settle.token", "settle.token.expired":
		return r.expireTask(head)
	default:
		return r.step(event)
	}
}

// startWith starts the instance with a message, at its recorded start time.
func (r *replay) startWith(message accepted) error {
	start := statechart.Start{Instance: r.name, At: r.startedAt}
	if r.machine.TakesInput() {
		input, err := r.machine.DecodeInput(readFamily(message.body).Input)
		if err != nil {
			return err
		}
		start.Input = input
	}
	instance, effects, err := r.machine.Start(start)
	if err != nil {
		return err
	}
	r.instance = limited(instance)
	if r.record.Parent != nil { // the history of a child begins with its start
		if r.at == len(r.record.History) || r.record.History[r.at].Event != "settle.start" {
			return differ("step %d of the history differs: want the start of a child", r.at)
		}
		r.at++
	}
	r.note(effects)
	return nil
}

// step makes the instance take one step, which must be the next in the history.
func (r *replay) step(event statechart.Event) error {
	r.rearm()
	if err := r.switchBuild(false); err != nil {
		return err
	}
	name, from := event.Type, r.instance.State()
	if event.Type == statechart.TimerEvent {
		name = replayed // unless the instance has the timer
	}
	for _, timer := range r.instance.Timers() {
		if event.Type == statechart.TimerEvent && timer.ID == event.Timer {
			name = "after " + timer.After
			if r.at < len(r.record.History) && r.record.History[r.at].At.Before(timer.At) {
				return differ("the timer %s was due at %v and fired at %v", timer.ID, timer.At, r.record.History[r.at].At)
			}
		}
	}
	if r.at < len(r.record.History) {
		event.At = r.record.History[r.at].At
	}
	before := r.snapshot()
	children := r.instance.Children()
	next, effects, handled, err := r.instance.Apply(event)
	if err != nil {
		return err
	}
	r.instance = next
	if size := len(r.snapshot()); size > snapshotBytesMax {
		r.instance = r.restored(before)
		return fmt.Errorf("it makes a snapshot of %d bytes", size)
	}
	if r.at == len(r.record.History) {
		return differ("the history ends before %s", name)
	}
	was := r.record.History[r.at]
	if is := (instances.Transition{At: was.At, Event: name, From: from, To: r.instance.State(), Ignored: !handled}); !reflect.DeepEqual(is, was) {
		return differ("step %d of the history differs:\n want %+v\n  got %+v", r.at, is, was)
	}
	r.at++
	r.note(effects)
	r.recordLeft(children, was.At)
	return nil
}

// note records the effects that the checks look for later, such as sends, children, aliases and answers to tasks.
func (r *replay) note(effects []statechart.Effect) {
	for _, effect := range effects {
		switch effect.Kind {
		case statechart.Send:
			to := effect.To
			if effect.Child != "" {
				to = r.childName(effect.Child, effect.Machine)
			}
			r.sends[derivedID(r.name, r.record.CreatedAt, effect.ID)] = to
		case statechart.StartExecution:
			end := nameEnd(derivedID(r.name, r.record.CreatedAt, effect.ID))
			r.awaited[end], r.asked[end] = effect.Name, effect.Name
		case statechart.ClaimAlias:
			r.aliases[effect.Name] = true
		case statechart.ReleaseAlias:
			delete(r.aliases, effect.Name)
		case statechart.SpawnInstance:
			r.spawned[r.childName(effect.Child, effect.Machine)] = effect.Input
		case statechart.ParkEvent:
			var parked struct {
				ID string `json:"$id"`
			}
			if err := json.Unmarshal(effect.Event, &parked); err != nil {
				panic(err)
			}
			delete(r.seen, parked.ID) // if the event is sent again, it must be applied
		case statechart.ResolveWaits:
			if r.failed {
				effect.Message = "" // the message may contain the reason why a service failed
			}
			r.answer(answerOf(effect), func(task wait) bool { return task.name == effect.Name })
		}
	}
	if r.instance.Status() != statechart.Active {
		r.answer(r.errorOfEnd(), func(wait) bool { return true })
		clear(r.awaited)
		clear(r.aliases)
	}
}
