package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// note is the payload of PLACE, and the context of an order.
type note struct {
	Text  string         `json:"text"`
	Calls int            `json:"calls"`
	Tags  map[string]int `json:"tags,omitempty"`
}

// call is the payload of CALL.
type call struct {
	Loud  bool           `json:"loud,omitempty"`
	At    time.Time      `json:"at,omitzero"`
	Notes map[string]int `json:"notes,omitempty"`
}

// order returns a machine with regions, a timer with a guard, a service, an eventless transition and a failed state.
// Two states can only be entered by an operator's move: `soon` has a short timer, and the entry of `broken` fails.
func order() durable.Machine {
	type (
		on    = statechart.Transition[note]
		state = statechart.State[note]
		after = statechart.After[note]
		do    = []statechart.Action[note]
	)
	settled := []string{statechart.Settled}
	keep := statechart.Assign("keep", func(n *note, payload note) { n.Text, n.Tags = payload.Text, payload.Tags })
	count := statechart.Update("count", func(n *note) { n.Calls++ })
	few := statechart.If("few", func(n note) bool { return n.Calls < 2 })
	fail := statechart.TryAssign("fail", func(*note, statechart.Event) error { return errors.New("out of paper") })
	never := statechart.If("never", func(note) bool { return false })
	pack := statechart.ServiceFunc("pack", func(context.Context, note, statechart.Call) (string, error) { return "", nil })
	return durable.Host(statechart.Must(statechart.Definition[note]{
		ID: "order", Version: 1, Parallel: true,
		Payloads: statechart.Payloads{
			"PLACE": statechart.PayloadOf[note](), "CALL": statechart.PayloadOf[call](), "CANCEL": statechart.NoPayload(),
			"TAG": statechart.PayloadOf[map[string]any](),
		},
		States: []state{
			{ID: "work", Initial: "new", States: []state{
				{ID: "new", Tags: settled, On: []on{{Event: "PLACE", Target: "packing", Actions: do{keep}}}},
				{ID: "packing", Invoke: []statechart.Invoke[note]{{Service: pack, OnDone: []on{{Target: "checking"}}, OnError: []on{{Target: "cancelled"}}}}},
				{ID: "checking", Always: []on{{Target: "soon", Guard: never}, {Target: "broken", Guard: never}, {Target: "waiting"}}},
				{ID: "waiting", Tags: settled, On: []on{{Event: "CALL", Actions: do{count}}, {Event: "CANCEL", Target: "cancelled"}},
					After: []after{{ID: "reminder", Delay: time.Hour, Target: "packing", Guard: few}, {ID: "reminder", Delay: time.Hour, Target: "cancelled"}}},
				{ID: "soon", Tags: settled, After: []after{{Delay: time.Second, Target: "cancelled"}}},
				{ID: "broken", Tags: settled, Entry: do{fail}, On: []on{{Event: "CANCEL", Target: "cancelled"}}},
				{ID: "cancelled", Type: statechart.Final, Tags: []string{"failed"}},
			}},
			{ID: "mood", Initial: "calm", States: []state{
				{ID: "calm", Tags: settled, On: []on{{Event: "CALL", Target: "busy"}}},
				{ID: "busy", Tags: settled},
			}},
		},
	}), durable.MachineConfig{StartedBy: []string{"PLACE"}, Retention: 90 * 24 * time.Hour})
}

// world is a consumer on a local AWS, and a console for it.
type world struct {
	t        *testing.T
	machines *durable.Machines
	store    *dynamostore.Store
	tables   *dynamodb.Client
	queues   *sqs.Client
	url      string
	dead     deadletter.Queues
	config   console.Config
	handler  http.Handler
	sent     int
	// fireTimers makes timers fire when they are due. Before the call, no timer fires.
	fireTimers func()
	// cloud has a virtual clock, which advance moves.
	cloud *awslocal.Cloud
	// loads and counts count the reads of the console. failing makes these reads fail.
	loads, counts atomic.Int64
	failing       atomic.Bool
}

// newWorld starts a consumer of the machine "order", and a console. `change` may change the console's settings.
func newWorld(t *testing.T, change func(*console.Config)) *world {
	t.Helper()
	return newWorldOf(t, order(), awslocal.NewClock(nil), change)
}

// newWorldOf is newWorld for another machine, with the given clock.
func newWorldOf(t *testing.T, machine durable.Machine, clock *awslocal.Clock, change func(*console.Config)) *world {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t}
	cloud := awslocal.New(awslocal.Config{Clock: clock})
	w.cloud = cloud
	settings := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	var err error
	w.machines, err = durable.NewMachines(machine)
	must(err)
	w.queues = sqs.NewFromConfig(settings)
	create := func(name string, attributes map[string]string) string {
		attributes["VisibilityTimeout"] = "60"
		made, err := w.queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		must(err)
		return *made.QueueUrl
	}
	w.url = create("settle.fifo", map[string]string{"FifoQueue": "true"})
	w.dead = deadletter.Queues{Client: w.queues, URLs: []string{create("dead.fifo", map[string]string{"FifoQueue": "true"})}}
	w.dead.Sources = map[string]string{w.dead.URLs[0]: w.url}
	delay := create("delay", map[string]string{})
	w.tables = dynamodb.NewFromConfig(settings)
	must(dynamostore.CreateIndexedTable(t.Context(), w.tables, "settle"))
	w.store = dynamostore.NewIndexed(w.tables, "settle")
	queue, delays := sqsqueue.New(w.queues, w.url, w.dead.URLs[0]), schedule.NewDelayQueue(w.queues, delay, clock.Now)
	loop, err := durable.New(w.machines, durable.Ports{Store: w.store, Queue: queue, Timers: delays}, durable.Config{Now: clock.Now, Logger: slog.New(slog.DiscardHandler)})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	var polls sync.WaitGroup
	poll := func(queue string, handler any) {
		polls.Go(func() {
			source := awslocal.EventSource{Queue: queue, Timeout: 10 * time.Second, ReportBatchItemFailures: true}
			if err := cloud.Poll(ctx, source, func() awslocal.Invoker { return lambda.NewHandler(handler) }); err != nil {
				t.Error(err)
			}
		})
	}
	consume := sqsqueue.Handler(loop)
	poll("settle.fifo", func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		return consume(context.WithoutCancel(ctx), event) // The deadline is a time of the real clock.
	})
	w.fireTimers = func() {
		poll("delay", sqsqueue.EachHandler(slog.New(slog.DiscardHandler), schedule.NewForwarder(delays, nil, queue).Forward))
	}
	t.Cleanup(func() {
		stop()
		polls.Wait()
		must(cloud.Close())
	})
	w.config = console.Config{
		Machines: w.machines, Store: w, DeadLetters: w.dead, Title: "a test", Poll: 250 * time.Millisecond, Now: clock.Now,
		Write: &console.Write{Queue: queue, Store: w.store, By: "a test user", Parked: w.dead},
	}
	if change != nil {
		change(&w.config)
	}
	w.handler, err = console.New(w.config)
	must(err)
	return w
}

func (w *world) Load(ctx context.Context, id instances.ID) (instances.Record, error) {
	w.loads.Add(1)
	if w.failing.Load() {
		return instances.Record{}, fmt.Errorf("reading the table: %w", durable.ErrDenied)
	}
	return w.store.Load(ctx, id)
}

func (w *world) Count(ctx context.Context, machine string) (dynamostore.Counts, error) {
	w.counts.Add(1)
	return w.store.Count(ctx, machine)
}

func (w *world) ListPage(ctx context.Context, filter dynamostore.Filter, limit int, cursor string) (dynamostore.Page, error) {
	return w.store.ListPage(ctx, filter, limit, cursor)
}

// post fills in the form of a page and submits it. Without a value for "token", it takes the token from the page.
func (w *world) post(path string, values url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	w.t.Helper()
	form := maps.Clone(values)
	if _, given := form["token"]; !given {
		if found := tokenInPage.FindStringSubmatch(w.page(path, 0)); found != nil {
			form.Set("token", found[1])
		}
	}
	return w.call(path, func(r *http.Request) {
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if change != nil {
			change(r)
		}
	})
}

// record returns the stored record of order/ID.
func (w *world) record(id string) instances.Record {
	w.t.Helper()
	record, err := w.store.Load(w.t.Context(), instances.ID{Machine: "order", ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// tokenOf returns the token of the forms of a page.
func (w *world) tokenOf(path string) string {
	w.t.Helper()
	found := tokenInPage.FindStringSubmatch(w.page(path, 0))
	if found == nil {
		w.t.Fatalf("%s has no form", path)
	}
	return found[1]
}

var tokenInPage = regexp.MustCompile(`name="token" value="([^"]+)"`)

// send sends an event, and waits until the consumer has applied or parked it.
func (w *world) send(instance, body string) {
	w.t.Helper()
	w.sent++
	_, err := w.queues.SendMessage(w.t.Context(), &sqs.SendMessageInput{
		QueueUrl: &w.url, MessageGroupId: &instance, MessageDeduplicationId: aws.String(fmt.Sprint(w.sent)), MessageBody: &body,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.applied(body)
}

// applied waits until the consumer has applied or parked all events.
func (w *world) applied(what string) {
	w.t.Helper()
	for range 1000 {
		had, err := deadletter.NewReader(w.queues, w.url, time.Minute).Content(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if had.Messages == 0 {
			return
		}
		select {
		case <-w.t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	w.t.Fatalf("%s was not applied", what)
}

// advance moves the clock, and waits until everything due by then is done.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	if _, err := w.cloud.Advance(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// change changes the stored record of an instance.
func (w *world) change(name string, change func(*instances.Record)) {
	w.t.Helper()
	id, err := instances.ParseID(name)
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := w.store.Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	record.Revision++
	change(&record)
	if err := w.store.Commit(w.t.Context(), record); err != nil {
		w.t.Fatal(err)
	}
}

// call calls the console. change may change the request.
func (w *world) call(path string, change func(*http.Request)) *httptest.ResponseRecorder {
	w.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "http://localhost/console/"+path, nil).WithContext(w.t.Context())
	if change != nil {
		change(request)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	return recorder
}

// page returns the HTML of a page, which must have the status. A status of 0 means 200.
func (w *world) page(path string, status int) string {
	w.t.Helper()
	answer := w.call(path, nil)
	if want := cmp.Or(status, http.StatusOK); answer.Code != want {
		w.t.Errorf("%s: got status %d, want %d:\n%s", path, answer.Code, want, answer.Body)
	}
	return answer.Body.String()
}

// textOf returns the text of a page without tags, with single spaces.
func textOf(page string) string {
	page = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`).ReplaceAllString(page, " ")
	return strings.Join(strings.Fields(html.UnescapeString(page)), " ")
}

// marksOf returns the marks on the chart of a page.
func marksOf(t *testing.T, page string) (marks struct {
	Active, Visited, Taken, Parked []string
	Counts                         map[string]int
}) {
	t.Helper()
	found := regexp.MustCompile(`<div data-marks="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no marks in:\n%s", page)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &marks); err != nil {
		t.Fatal(err)
	}
	return marks
}

// contains checks that a text contains each wanted text.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in:\n%s", part, text)
		}
	}
}
