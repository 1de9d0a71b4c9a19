package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/emf/emftest"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// stage runs one instance in virtual time, with its table, its queue and poller, its timers and its tasks. Failed
// messages are redelivered when the loop asks for it.
type stage struct {
	// calls can fail or delay a call, such as "Load". Nil means that all calls succeed.
	calls func(name string) error
	// measured has the metrics of each invocation.
	measured []measurement

	record   json.RawMessage
	messages []*delivery
	timers   []timer
	sequence int
	// expires maps task tokens to their deadlines.
	expires map[string]time.Time
	// If `loops` is set, messages of the instance to itself arrive in the queue, and messages may be parked. Otherwise,
	// sent messages are dropped, and nothing may be parked.
	loops  bool
	parked []string
}

type measurement struct {
	at     time.Time
	values map[string]float64
}

type delivery struct {
	durable.Delivery
	visible time.Time
}

type timer struct {
	at   time.Time
	body string
}

const group = "order/1"

// batchMax is the BatchSize of the consumer's event source mapping in the template.
const batchMax = 10

// Write accepts a line of metrics.
func (s *stage) Write(line []byte) (int, error) {
	values, err := emftest.Check(line)
	s.measured = append(s.measured, measurement{time.Now(), values})
	return len(line), err
}

func (s *stage) call(name string) error {
	if s.calls == nil {
		return nil
	}
	return s.calls(name)
}

func (s *stage) Load(_ context.Context, id instances.ID) (record instances.Record, err error) {
	record.Instance = id
	if err = s.call("Load"); err == nil && s.record != nil {
		err = json.Unmarshal(s.record, &record)
	}
	return record, err
}

func (s *stage) Commit(_ context.Context, record instances.Record) (err error) {
	s.record, err = json.Marshal(record)
	return err
}

func (s *stage) ClearOutbox(ctx context.Context, id instances.ID, _ int64, left durable.Left) error {
	record, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	record.Revision++
	record.Outbox, record.Tokens = left.Outbox, left.Tokens
	return s.Commit(ctx, record)
}

func (s *stage) KeepSends(context.Context, instances.ID, string, []instances.LastSend, time.Time) error {
	return nil
}

func (s *stage) LastSend(context.Context, instances.ID, string, string) (instances.LastSend, bool, error) {
	return instances.LastSend{}, false, nil
}

func (s *stage) Claim(context.Context, string, instances.ID, time.Time, int64) error {
	return nil
}

func (s *stage) Release(context.Context, string, instances.ID, time.Time, time.Time) error {
	return nil
}

// Send accepts messages. See stage.loops.
func (s *stage) Send(_ context.Context, message durable.Message) (string, error) {
	if s.loops && message.To.String() == group {
		s.post(string(message.Body))
	}
	return "m", s.call("Send")
}

func (s *stage) SendBatch(ctx context.Context, messages []durable.Message) []error {
	errs := make([]error, len(messages))
	for i, message := range messages {
		_, errs[i] = s.Send(ctx, message)
	}
	return errs
}

func (s *stage) Forward(context.Context, durable.Delivery, string) error { return nil }

func (s *stage) Park(_ context.Context, d durable.Delivery, reason string) error {
	if s.loops {
		s.parked = append(s.parked, reason)
		return nil
	}
	return errors.New("expected nothing to be parked, got " + d.Body + ": " + reason)
}

func (s *stage) Delay(_ context.Context, deliveries []durable.Delivery, wait time.Duration) error {
	for _, message := range s.messages {
		if slices.ContainsFunc(deliveries, func(d durable.Delivery) bool { return d.MessageID == message.MessageID }) {
			message.visible = time.Now().Add(wait)
		}
	}
	return nil
}

func (s *stage) Schedule(_ context.Context, at time.Time, message durable.Message) error {
	s.timers = append(s.timers, timer{at, string(message.Body)})
	return nil
}
func (s *stage) Cancel(context.Context, string) error { return nil }

func (s *stage) Answer(_ context.Context, token instances.Token, _ instances.Answer, _ bool) error {
	if time.Now().After(s.expires[token.Value.Reveal()]) {
		return durable.ErrExpired
	}
	return nil
}

func (s *stage) Heartbeat(_ context.Context, token instances.Token) error {
	if time.Now().After(s.expires[token.Value.Reveal()]) {
		return durable.ErrExpired
	}
	return nil
}

// wait returns the body of a settle.wait event whose task has a timeout, and registers the token.
func (s *stage) wait(token string, timeout time.Duration) string {
	s.expires[token] = time.Now().Add(timeout)
	entered, _ := json.Marshal(time.Now())
	return `{"type":"settle.wait","$task":{"token":"` + token + `","name":"Queued","enteredAt":` + string(entered) +
		`,"timeoutSeconds":` + strconv.Itoa(int(timeout.Seconds())) + `}}`
}

func (s *stage) post(body string) {
	s.sequence++
	id := strconv.Itoa(s.sequence)
	s.messages = append(s.messages, &delivery{visible: time.Now(), Delivery: durable.Delivery{
		MessageID: id, ReceiptHandle: id, Queue: "q", Group: group, SequenceNumber: id, DeduplicationID: id, SentAt: time.Now(), Body: body,
	}})
}

// invoke passes the group's messages to the function, unless the group is locked.
func (s *stage) invoke(t *testing.T, handler func([]durable.Delivery) []string) {
	t.Helper()
	s.timers = slices.DeleteFunc(s.timers, func(due timer) bool {
		if due.at.After(time.Now()) {
			return false
		}
		s.post(due.body)
		return true
	})
	var batch []durable.Delivery
	for _, message := range s.messages {
		if message.visible.After(time.Now()) {
			return
		}
		if len(batch) == batchMax {
			break
		}
		message.ReceiveCount++
		batch = append(batch, message.Delivery)
	}
	if len(batch) == 0 {
		return
	}
	failed := handler(batch)
	handled := map[string]bool{}
	for _, d := range batch {
		handled[d.MessageID] = !slices.Contains(failed, d.MessageID)
	}
	s.messages = slices.DeleteFunc(s.messages, func(d *delivery) bool { return handled[d.MessageID] })
}

// play sends the events at their times and polls the queue every second until the end.
func (s *stage) play(t *testing.T, service func() error, script map[time.Duration]func(*stage), end time.Duration) {
	t.Helper()
	s.expires = map[string]time.Time{}
	tele := New(Config{Service: "settle", Logger: slog.New(FaultHandler(slog.NewTextHandler(io.Discard, nil))), Metrics: s, Now: time.Now})
	machines, err := durable.NewMachines(order(service))
	if err != nil {
		t.Fatal(err)
	}
	ports := durable.Ports{Store: s, Queue: s, Timers: s, Tokens: s}
	loop, err := durable.New(machines, ports, durable.Config{Now: time.Now, Logger: tele.config.Logger, Observer: tele.Observer()})
	if err != nil {
		t.Fatal(err)
	}
	handler := func(batch []durable.Delivery) (failed []string) {
		invoked := tele.Handler(lambda.NewHandler(func(ctx context.Context) error {
			failed = loop.Handle(ctx, batch)
			return nil
		}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := invoked.Invoke(ctx, []byte("{}")); err != nil {
			t.Error(err)
		}
		return failed
	}
	began, script := time.Now(), maps.Clone(script)
	for second := time.Duration(0); second < end; second = time.Since(began).Truncate(time.Second) + time.Second {
		time.Sleep(time.Until(began.Add(second)))
		for at, act := range script {
			if at <= second {
				act(s)
				delete(script, at)
			}
		}
		s.invoke(t, handler)
	}
	if len(s.messages) > 0 {
		t.Errorf("expected an empty queue at the end, got %+v", s.messages[0].Delivery)
	}
}

// bag is the context of the machine `order`.
type bag struct{}

// order is the machine of the scenes. In the state `charging`, a failed service is retried after 20 minutes, then after
// 40, and then every hour. The event TELL sends an event to another instance. The state `picked` answers the waiting
// tasks. In the state `broken`, the chart fails on the result of the service.
func order(service func() error) durable.Machine {
	charge := statechart.ServiceFunc("charge", func(context.Context, bag, statechart.Call) (string, error) {
		time.Sleep(30 * time.Second)
		return "", service()
	})
	tell := statechart.SendTo("NOTE", func(bag, statechart.Event) (string, any) { return "order/2", nil })
	again := statechart.SendTo("LOOP", func(bag, statechart.Event) (string, any) { return group, nil })
	count := statechart.ServiceFunc("count", func(context.Context, bag, statechart.Call) (string, error) { return "", errors.New("none") })
	fail := statechart.TryAssign("fail", func(*bag, statechart.ServiceError) error { return errors.New("expected some") })
	idle := []statechart.Transition[bag]{{Target: "idle"}}
	settled := []string{statechart.Settled}
	type none struct{}
	payloads := statechart.Payloads{}
	for _, event := range []string{"NOTE", "CHARGE", "TELL", "PICK", "DROP", "BREAK", "LOOP"} {
		payloads[event] = statechart.PayloadOf[none]()
	}
	return durable.Host(statechart.Must(statechart.Definition[bag]{
		ID: "order", Version: 1, Initial: "idle", Payloads: payloads,
		States: []statechart.State[bag]{
			{ID: "idle", Tags: settled, On: []statechart.Transition[bag]{
				{Event: "NOTE"}, {Event: "CHARGE", Target: "charging"}, {Event: "PICK", Target: "picked"},
				{Event: "BREAK", Target: "broken"},
				{Event: "TELL", Actions: []statechart.Action[bag]{tell}},
				{Event: "LOOP", Actions: []statechart.Action[bag]{again, again}},
			}},
			{ID: "charging", Invoke: []statechart.Invoke[bag]{{
				Service: charge, Retry: statechart.RetryPolicy{Attempts: 99, Interval: 20 * time.Minute}, OnDone: idle, OnError: idle,
			}}},
			{ID: "broken", Invoke: []statechart.Invoke[bag]{{
				Service: count, OnDone: idle, OnError: []statechart.Transition[bag]{{Target: "idle", Actions: []statechart.Action[bag]{fail}}},
			}}},
			{ID: "picked", Tags: settled, Resolve: []statechart.Resolution[bag]{{Name: "Queued"}},
				On: []statechart.Transition[bag]{{Event: "DROP", Target: "idle"}}},
		},
	}), durable.MachineConfig{})
}
