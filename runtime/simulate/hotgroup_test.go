package simulate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

// One instance receives hotEvents events, and applies hotApplied of them a second. Meanwhile, hotOthers other instances
// together get 20 events a second. SQS looks for their events in the first hotScan messages. With -short, hotScale
// divides the numbers of messages and the times.
const (
	hotEvents  = 200_000
	hotScan    = 120_000
	hotApplied = 200
	hotLatency = 10 * time.Second / hotApplied / 2 // of a call: a turn reads and writes once for ten events
	hotOthers  = 1000
	hotName    = "mill/hot"
	hotEvent   = `{"type":"grind"}`
	// hotAgeMax bounds the backlog to 30,000 events at the rate of the flood.
	hotAgeMax = 30 * time.Second
)

func hotScale() int {
	if testing.Short() {
		return 20
	}
	return 1
}

// hotCase is a way to handle the hot instance, and its effect on the other instances.
type hotCase struct {
	name string
	// stands means that all events of the hot instance are in the queue at the start. Otherwise, they arrive at `rate`.
	stands bool
	// rate is the number of events a second that the sender posts to the hot instance.
	rate   int
	ageMax time.Duration
	// moves means that the hot instance moves to its own lane, at once if the backlog stands, else at the alarm Backlog.
	moves bool
	// wait is the longest delay of an event of the other instances. If the backlog stands, it is the time until the
	// last delayed event.
	wait time.Duration
	// applied is the number of events that the hot instance applies within `wait`, if the backlog stands.
	applied, refused int
}

// TestAHotInstanceBlocksTheOthersUnlessItIsRefusedOrMoved posts events to a hot instance through the gateway.
func TestAHotInstanceBlocksTheOthersUnlessItIsRefusedOrMoved(t *testing.T) {
	t.Parallel()
	scale := time.Duration(hotScale())
	cases := []*hotCase{
		{name: "no limit", rate: 1000},
		{name: "`BacklogAgeMax` of 30 s", rate: 1000, ageMax: hotAgeMax / scale},
		{name: "moved to a lane when the alarm fires", rate: 1000, moves: true},
		{name: "left in its lane", stands: true, rate: hotApplied / 2},
		{name: "moved to a lane", stands: true, rate: hotApplied / 2, moves: true},
	}
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.measure(t)
				t.Logf("the others wait for %v; %d events applied; %d requests refused", c.wait, c.applied, c.refused)
			})
		}
	})
	if t.Failed() {
		return
	}
	none, limit, alarm, left, moved := cases[0], cases[1], cases[2], cases[3], cases[4]
	if none.wait < 150*time.Second/scale {
		t.Errorf("without a limit, the others wait for %v: the test shows nothing", none.wait)
	}
	if limit.wait > time.Second || limit.refused == 0 || alarm.wait > time.Second {
		t.Errorf("want the others to wait for a second at most, got %v with a limit, and %v with a lane", limit.wait, alarm.wait)
	}
	// SQS sees only the first hotScan messages. So the others wait until the hot instance has applied the events beyond
	// this number. Without a move, it must also apply the events that the sender adds meanwhile.
	beyond := (hotEvents - hotScan) / hotScale()
	if moved.applied < beyond || moved.applied > beyond*11/10 || left.applied < beyond*9/5 {
		t.Errorf("want %d events applied before the others go on, or almost twice as many without a move, got %d and %d", beyond, moved.applied, left.applied)
	}
	if hotScale() == 1 && !t.Failed() {
		wantInPage(t, "../../docs/scaling.md", map[string]string{"hot group": hotTable(cases)})
	}
}

// hotTable returns the table of the cases at full scale.
func hotTable(cases []*hotCase) string {
	var b strings.Builder
	b.WriteString("| case | the sender | the others wait for | hot events applied until then |\n|---|---|---|---|\n")
	for _, c := range cases {
		sender, wait, applied := fmt.Sprintf("%s events, %s a second", thousands(hotEvents), thousands(c.rate)), "less than a second", ""
		if c.stands {
			sender = fmt.Sprintf("%s events wait, %d more a second", thousands(hotEvents), c.rate)
			applied = thousands((c.applied + 500) / 1000 * 1000)
		}
		if c.wait > time.Second {
			wait = fmt.Sprintf("%d s", int(c.wait.Round(10*time.Second).Seconds()))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.name, sender, wait, applied)
	}
	return b.String()
}

// measure plays the case.
func (c *hotCase) measure(t *testing.T) {
	t.Helper()
	mill := &crowd{}
	inWorld(t, options{
		faults: &faults{latency: hotLatency}, scanMessagesMax: hotScan / hotScale(), lanes: []string{"bulk"}, more: []durable.Machine{milling(c.ageMax)},
		observer: durable.Observer{Applied: mill.applied, Loaded: mill.loaded},
	}, func(w *world) {
		mill.world, mill.alarm = w, make(chan struct{})
		if c.stands {
			mill.send(hotName, hotEvent) // An operator moves only an instance that exists.
			mill.await(hotName, "open")
			mill.fill(hotEvents / hotScale())
		}
		began, ended := time.Now(), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { mill.sendToOthers(ended) })
		if c.moves {
			all.Go(func() {
				if !c.stands {
					<-mill.alarm
				}
				mill.moveHot()
			})
		}
		if !c.stands {
			c.refused = mill.flood(c.rate, func(posted int) bool { return posted < hotEvents/hotScale() })
			mill.until(func() bool { return mill.others > 0 && mill.others == mill.sent })
			c.wait = mill.delayMax
		} else {
			all.Go(func() {
				mill.flood(c.rate, func(int) bool { return !isClosed(ended) })
			})
			// The two latest events may be in flight: the sender sends one every 50 ms.
			mill.until(func() bool { return mill.others > 0 && mill.sent-mill.others <= 2 })
			c.wait, c.applied = mill.lateAt.Sub(began), mill.lateHot
		}
		close(ended)
		all.Wait()
	})
}

func isClosed(ended chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// crowd is a world with a hot instance and others.
type crowd struct {
	*world
	// alarm is closed once the hot instance's backlog is older than a minute, divided by hotScale. A minute is the
	// threshold of the alarm Backlog in infra/template.yaml.
	alarm chan struct{}

	mu sync.Mutex
	// sent counts the events that were sent to the others. `hot` and `others` count the applied events.
	sent, hot, others int
	// delayMax is the longest time from sending an event to the others until its commit. lateAt is the commit of the
	// last event that took more than a second. lateHot is the value of `hot` at that commit.
	delayMax time.Duration
	lateAt   time.Time
	lateHot  int
}

// milling hosts a chart that only counts its events.
func milling(backlogAgeMax time.Duration) durable.Machine {
	type mill struct {
		Ground int `json:"ground"`
	}
	grind := statechart.Update("grind", func(m *mill) { m.Ground++ })
	return durable.Host(statechart.Must(statechart.Definition[mill]{
		ID: "mill", Version: 1, Initial: "open", Payloads: statechart.Payloads{"grind": statechart.NoPayload()},
		States: []statechart.State[mill]{{ID: "open", Tags: []string{statechart.Settled},
			On: []statechart.Transition[mill]{{Event: "grind", Actions: []statechart.Action[mill]{grind}}}}},
	}), durable.MachineConfig{BacklogAgeMax: backlogAgeMax})
}

func (c *crowd) applied(_ context.Context, a durable.Applied) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Delivery.Group == hotName {
		c.hot++
		return
	}
	c.others++
	delay := time.Since(a.Delivery.SentAt)
	if c.delayMax = max(c.delayMax, delay); delay > time.Second {
		c.lateAt, c.lateHot = time.Now(), c.hot
	}
}

func (c *crowd) loaded(_ context.Context, l durable.Loaded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Instance == hotName && l.Backlog > time.Minute/time.Duration(hotScale()) && !isClosed(c.alarm) {
		close(c.alarm)
	}
}

// until waits until the condition holds.
func (c *crowd) until(condition func() bool) {
	c.t.Helper()
	for range 20_000 {
		c.mu.Lock()
		holds := condition()
		c.mu.Unlock()
		if holds {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("the other instances applied %d of %d events", c.others, c.sent)
}

// sendToOthers sends 20 events a second, each to the next of the other instances.
func (c *crowd) sendToOthers(ended chan struct{}) {
	for i := 0; !isClosed(ended); i++ {
		c.mu.Lock()
		c.sent++
		c.mu.Unlock()
		c.send(fmt.Sprintf("mill/other-%d", i%hotOthers), hotEvent)
		time.Sleep(time.Second / 20)
	}
}

// flood posts events to the hot instance at a rate until `more` returns false, and ignores refusals. It returns the
// number of refused requests.
func (c *crowd) flood(rate int, more func(posted int) bool) (refused int) {
	c.t.Helper()
	for posted := 0; more(posted); {
		answer := httptest.NewRecorder()
		c.gateway.ServeHTTP(answer, httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/instances/"+hotName+"/events", strings.NewReader(hotEvent)))
		if answer.Code == http.StatusTooManyRequests {
			refused++
		} else if answer.Code != http.StatusAccepted {
			c.t.Fatalf("want 202 or 429, got %d: %s", answer.Code, answer.Body)
		}
		if posted++; posted%(rate/10) == 0 {
			time.Sleep(time.Second / 10)
		}
	}
	return refused
}

// replaceable is a handler that can be replaced while it serves requests.
type replaceable struct{ current atomic.Pointer[http.Handler] }

func (r *replaceable) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	(*r.current.Load()).ServeHTTP(w, request)
}

// moveHot moves the hot instance to the lane bulk. From now on, the gateway sends its events there.
func (c *crowd) moveHot() {
	c.t.Helper()
	c.options.laneRules = hotName + "*=bulk"
	c.startGateway()
	config := c.aws(c.cloud.HTTPClient(), true)
	o := operations.Operator{
		Machines: c.machines(), Store: dynamostore.New(dynamodb.NewFromConfig(config), table), Queue: c.queue(sqs.NewFromConfig(config), ""), NewID: func() string { return "wake" },
	}
	id, err := instances.ParseID(hotName)
	if err != nil {
		c.t.Fatal(err)
	}
	op := instances.Operation{Kind: instances.ChangeLane, Lane: "bulk", By: "an operator", At: time.Now()}
	for { // Retry if the consumer has stored the instance in the meantime.
		_, err := o.Change(c.t.Context(), id, 0, func(instances.Record) (instances.Operation, error) { return op, nil })
		if err == nil {
			return
		}
		c.t.Log(err)
	}
}

// fill sends n events to the hot instance, ten at a time.
func (c *crowd) fill(n int) {
	c.t.Helper()
	client := sqs.NewFromConfig(c.aws(c.cloud.HTTPClient(), true))
	for i := 0; i < n; i += 10 {
		var entries []types.SendMessageBatchRequestEntry
		for k := range 10 {
			entries = append(entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(k)), MessageGroupId: aws.String(hotName), MessageBody: aws.String(hotEvent), MessageDeduplicationId: aws.String(strconv.Itoa(i + k)),
			})
		}
		if sent, err := client.SendMessageBatch(c.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &c.queueURL, Entries: entries}); err != nil || len(sent.Failed) > 0 {
			c.t.Fatal(err, sent.Failed)
		}
	}
}
