package simulate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// derivedID is the ID of an effect among all instances, as docs/adr/0003 has it.
func derivedID(instance, createdAt, id string) string {
	at, err := time.Parse(time.RFC3339Nano, createdAt)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s@%d/%s", instance, at.UnixMilli(), id)
}

// check checks at the end of a run that the guarantees held.
func (s *simulation) check() {
	sends := map[string]string{} // the receiver of each event that an instance has sent, by its $id
	for _, name := range s.plan.instances {
		id, err := durable.ParseInstanceID(name)
		if err != nil {
			s.t.Fatal(err)
		}
		record, err := s.store.Load(s.t.Context(), id)
		if err != nil {
			s.problem("%s cannot be read: %v", name, err)
			continue
		}
		if len(record.Outbox) > 0 {
			s.problem("%s has an outbox left behind: %+v", name, record.Outbox)
		}
		r := &replay{simulation: s, name: name, record: record, messages: s.ledger.of(name), seen: map[string]bool{}, sends: sends}
		if r.machine, err = s.machines.Lookup(id.Machine); err != nil {
			s.t.Fatal(err)
		}
		if err := r.run(); err != nil {
			s.problem("%s: %v\n  its history:\n%s", name, err, r.historyText())
		}
	}
	s.checkSends(sends)
	s.checkQueues()
}

// checkSends checks that the events which instances send one another are the ones that arrived.
func (s *simulation) checkSends(sends map[string]string) {
	arrived := map[string]bool{}
	for _, name := range s.plan.instances {
		for _, message := range s.ledger.of(name) {
			var head struct {
				ID string `json:"$id"`
			}
			if json.Unmarshal([]byte(message.body), &head) == nil && strings.Contains(head.ID, "@") {
				arrived[head.ID] = true
				if sends[head.ID] != name {
					s.problem("%s got an event that nobody has sent it: %s", name, message.body)
				}
			}
		}
	}
	for id, to := range sends {
		if !arrived[id] {
			s.problem("the event %s has never arrived at %s", id, to)
		}
	}
}

// checkQueues checks that nothing is left in the queues.
func (s *simulation) checkQueues() {
	client := sqs.NewFromConfig(s.truth())
	for _, url := range []string{s.queueURL, s.delayURL} {
		got, err := client.GetQueueAttributes(s.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
			if n := got.Attributes[name]; n != "0" {
				s.problem("%s of %s is %s at the end", name, url, n)
			}
		}
	}
}

// replay is the sequential model of one instance: it takes the messages that the queue accepted, in their
// order and each once, through the chart, at the times that the instance's history has.
type replay struct {
	simulation *simulation
	name       string
	machine    durable.Machine
	record     durable.Record
	messages   []accepted
	instance   durable.Instance
	at         int // in the history
	seen       map[string]bool
	sends      map[string]string
	began      bool     // for the message at hand
	stopped    []string // the timers whose firing was parked
}

// run goes through the messages. Its error says where history and model differ.
func (r *replay) run() error {
	for _, message := range r.messages {
		if err := r.take(message); err != nil {
			return fmt.Errorf("message %s %s: %w", message.sequence, message.body, err)
		}
	}
	if r.at != len(r.record.History) {
		return fmt.Errorf("the history has %d steps that no message accounts for, from %+v on", len(r.record.History)-r.at, r.record.History[r.at])
	}
	if r.instance == nil {
		if r.record.Revision != 0 {
			return fmt.Errorf("there is an item that no message accounts for: %+v", r.record)
		}
		return nil
	}
	if !r.instance.Settled() {
		return fmt.Errorf("it is not settled at the end, but in %v", r.instance.State())
	}
	left := func(timer statechart.Timer) bool { return !slices.Contains(r.stopped, timer.ID) }
	if timers := r.instance.Timers(); slices.ContainsFunc(timers, left) {
		return fmt.Errorf("timers have not fired: %+v", timers)
	}
	want, err := r.instance.Snapshot()
	if err != nil {
		return err
	}
	if !equalJSON(want, r.record.Snapshot) {
		return fmt.Errorf("its snapshot differs:\n want %s\n  got %s", want, r.record.Snapshot)
	}
	return nil
}

// take takes one message through the chart.
func (r *replay) take(message accepted) error {
	r.began = false
	event, skip, reason := r.examine(message)
	if skip {
		return nil
	}
	reasons := r.simulation.ledger.parked[r.name+" "+message.sequence]
	if reason == nil && len(reasons) > 0 && strings.Contains(reasons[0], "no try came to an end") {
		return nil // So it was out of luck. What it takes for that, other tests say.
	}
	if reason == nil {
		reason = r.apply(event, message)
	}
	if reason == nil {
		if len(reasons) > 0 {
			return fmt.Errorf("it was parked although it can be applied: %s", reasons[0])
		}
		r.seen[event.ID] = event.ID != ""
		return r.settle()
	}
	if different, ok := reason.(*differenceError); ok {
		return different
	}
	if r.began && message.sent != fmt.Sprint(r.record.CreatedAt.UnixMilli()) {
		r.instance = nil // It had begun for this event alone. Had a service run, it would have been stored.
	}
	if event.Type == statechart.TimerEvent {
		r.stopped = append(r.stopped, event.Timer)
	}
	if len(reasons) == 0 {
		return fmt.Errorf("it was not parked, although %w", reason)
	}
	return nil
}

// differenceError is how history and model differ.
type differenceError struct{ text string }

func (e *differenceError) Error() string { return e.text }

func differ(format string, args ...any) error {
	return &differenceError{fmt.Sprintf(format, args...)}
}

// examine decides what becomes of a message, as the table in docs/guarantees.md says.
func (r *replay) examine(message accepted) (event statechart.Event, skip bool, reason error) {
	var head struct {
		Type        string
		Incarnation int64 `json:"$incarnation"`
	}
	if err := json.Unmarshal([]byte(message.body), &head); err != nil {
		return event, false, err
	}
	ours := r.instance != nil && head.Incarnation == r.record.CreatedAt.UnixMilli()
	if head.Type == "settle.alias.taken" {
		event, reason = r.machine.Decode([]byte(`{"type": "alias.taken"}`))
		return event, !ours, reason
	}
	event, reason = r.machine.Decode([]byte(message.body))
	switch {
	case reason != nil:
		return event, false, reason
	case event.Type == statechart.TimerEvent:
		known := ours && slices.ContainsFunc(r.instance.Timers(), func(timer statechart.Timer) bool { return timer.ID == event.Timer })
		return event, !known, nil
	default:
		return event, r.seen[event.ID], nil
	}
}

// apply applies an event from outside, at the time that the history has.
func (r *replay) apply(event statechart.Event, message accepted) error {
	r.began = r.instance == nil
	if r.began {
		if err := r.begin(); err != nil {
			return err
		}
		if err := r.settle(); err != nil {
			return err
		}
	}
	return r.step(event)
}

// begin starts the instance, at the time that its context has.
func (r *replay) begin() error {
	var snapshot struct{ Context trail }
	if r.record.Revision > 0 {
		if err := json.Unmarshal(r.record.Snapshot, &snapshot); err != nil {
			return differ("%v", err)
		}
	}
	instance, effects, err := r.machine.Start(statechart.Start{Instance: r.name, At: snapshot.Context.Began})
	if err != nil {
		return err
	}
	r.instance = instance
	return r.note(effects)
}

// step takes one step, which must be the next of the history.
func (r *replay) step(event statechart.Event) error {
	name, from := event.Type, r.instance.State()
	for _, timer := range r.instance.Timers() {
		if event.Type == statechart.TimerEvent && timer.ID == event.Timer {
			name = "after " + timer.After
			if r.at < len(r.record.History) && r.record.History[r.at].At.Before(timer.At) {
				return differ("the timer %s was due at %v and has fired at %v", timer.ID, timer.At, r.record.History[r.at].At)
			}
		}
	}
	if r.at < len(r.record.History) {
		event.At = r.record.History[r.at].At
	}
	effects, handled, err := r.instance.Apply(event)
	if err != nil {
		return err
	}
	if r.at == len(r.record.History) {
		return differ("the history ends before %s", name)
	}
	was := r.record.History[r.at]
	if is := (durable.Transition{At: was.At, Event: name, From: from, To: r.instance.State(), Ignored: !handled}); !reflect.DeepEqual(is, was) {
		return differ("step %d of the history differs:\n want %+v\n  got %+v", r.at, is, was)
	}
	r.at++
	return r.note(effects)
}

// note keeps the sends among the effects.
func (r *replay) note(effects []statechart.Effect) error {
	for _, effect := range effects {
		if effect.Kind == statechart.Send {
			r.sends[derivedID(r.name, r.record.CreatedAt.Format(time.RFC3339Nano), effect.ID)] = effect.To
		}
	}
	return nil
}

// settle feeds the model what the history says has come of its services, and of the time that they had.
func (r *replay) settle() error {
	for !r.instance.Settled() {
		if r.at == len(r.record.History) {
			return differ("the history ends in %v, which is not settled", r.instance.State())
		}
		was := r.record.History[r.at]
		event, ok := r.inside(was)
		if !ok {
			return differ("%s was applied in %v, which is not settled", was.Event, r.instance.State())
		}
		if err := r.step(event); err != nil {
			return differ("%v", err)
		}
	}
	return nil
}

// inside finds what a step of an unsettled instance was about.
func (r *replay) inside(was durable.Transition) (statechart.Event, bool) {
	for _, invocation := range r.instance.Invocations() {
		switch was.Event {
		case "done.invoke." + invocation.ID:
			return invocation.Done(result{derivedID(r.name, r.record.CreatedAt.Format(time.RFC3339Nano), invocation.Key)}), true
		case "error.invoke." + invocation.ID:
			return invocation.Failed(fmt.Errorf("any")), true
		}
	}
	var next *statechart.Timer
	for _, timer := range r.instance.Timers() {
		if next == nil || timer.At.Before(next.At) {
			next = &timer
		}
	}
	if next == nil || was.Event != "after "+next.After {
		return statechart.Event{}, false
	}
	return statechart.Event{Type: statechart.TimerEvent, Timer: next.ID}, true
}

func (r *replay) historyText() string {
	var text strings.Builder
	for i, step := range r.record.History {
		fmt.Fprintf(&text, "   %d %s %s: %v -> %v ignored %v\n", i, step.At.Format(time.RFC3339Nano), step.Event, step.From, step.To, step.Ignored)
	}
	return text.String()
}

func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
