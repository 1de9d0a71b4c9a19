// Package awslocal runs AWS services on this machine: SQS, DynamoDB, EventBridge, EventBridge Scheduler and Step
// Functions. They speak the wire protocols of the AWS SDKs and the aws CLI. The package also runs Lambda functions:
// [Cloud.Poll] is an event source mapping, state machines invoke functions in Task states, and [Bootstrap] runs
// deployable executables against a Runtime API.
//
// Use a Cloud in process through HTTPClient, without a socket, or on a loopback port through Listen. The models of the
// services read the time only from Config.Now and use no random numbers. All waiting uses channels and timers. Inside a
// testing/synctest bubble everything runs in virtual time, and the same calls return the same answers. Only the order
// in which functions answer at the same instant is not deterministic.
//
// awslocal rejects unsupported features with an error that names them. There is one account and one Region. All
// credentials are accepted. The data of a Cloud returned by Open survives a kill of the process. The data of a Cloud
// returned by New exists only in memory.
package awslocal

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/disk"
	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
	"github.com/settle-run/settle/infra/awslocal/internal/events"
	"github.com/settle-run/settle/infra/awslocal/internal/scheduler"
	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
	"github.com/settle-run/settle/infra/awslocal/internal/states"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	// Account is the AWS account of all resources.
	Account = wire.Account
	// Region is the AWS Region of all resources. Requests signed for other Regions are also served.
	Region = wire.Region
)

// Config tunes a Cloud. The zero value is ready to use.
type Config struct {
	// Now is the clock. It must not run backwards, not even between two openings of a data folder. It must advance at
	// the same rate as the timers of package time, which end long polls. Defaults to time.Now.
	Now func() time.Time
	// Clock, if not nil, replaces Now. Cloud.Advance moves it forward. Functions in other processes do not see this
	// clock.
	Clock *Clock
	// Fault, if not nil, decides what goes wrong with each call. It is called concurrently from the goroutines that
	// make the calls. It may block, which delays the call.
	Fault func(Call) Fault
	// DeliveryFault, if not nil, decides what goes wrong with each batch that Poll receives. Like Fault, it is called
	// concurrently and may block.
	DeliveryFault func(Delivery) DeliveryFault
	// StatusChanges is the name or URL of a standard queue. It receives EventBridge's event "Step Functions Execution
	// Status Change" whenever an execution starts or ends, as if a rule forwarded all these events. If empty, no
	// events are sent.
	StatusChanges string
	// StatusChangeFault, if not nil, decides what goes wrong with each event for StatusChanges. It must not call the
	// Cloud, because the caller holds the Cloud's lock.
	StatusChangeFault func(StatusChange) StatusChangeFault
	// Published, if not nil, is called with each event that reaches an event bus, in the form that targets receive. It
	// must not call the Cloud, because the caller holds the Cloud's lock.
	Published func(event json.RawMessage)
	// TTLDelay is how long an item remains after its expiry time. Defaults to one minute. A negative value deletes
	// immediately. AWS deletes within a few days (DynamoDB Developer Guide, "Using time to live").
	TTLDelay time.Duration
	// FIFOScanMessagesMax is the number of oldest messages that a receive from a FIFO queue searches for available
	// groups. Defaults to 120,000, as on AWS. A lower value lets a test see the effect of a long backlog with few
	// messages.
	FIFOScanMessagesMax int
	// Data is the folder in which Open stores the state of all services: messages, items, schedules, executions. It
	// is created if it does not exist. If empty, nothing survives the process.
	Data string
	// AllowHosts lists more host names, without a port, that clients of a server of Listen may use. The server always
	// accepts localhost and the loopback addresses. A client in a container needs host.docker.internal, for example.
	AllowHosts []string
	// Functions are registered at the start, by name, as with Cloud.Register. Executions restored from a data folder
	// may invoke them immediately.
	Functions map[string]Function
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clock != nil {
		c.Now = c.Clock.Now
	}
	if c.TTLDelay == 0 {
		c.TTLDelay = dynamo.TTLDelay
	}
	if c.FIFOScanMessagesMax <= 0 {
		c.FIFOScanMessagesMax = sqs.ScanMessagesMax
	}
	return c
}

// Cloud holds one account's queues, tables, schedules and state machines. It is safe for concurrent use.
type Cloud struct {
	now       func() time.Time
	clock     *Clock        // Config.Clock, may be nil
	advancing chan struct{} // holds a value while Advance runs
	requests  atomic.Uint64 // number of requests so far
	faults    *faults       // nil if no fault hook is set
	// allowHosts is Config.AllowHosts.
	allowHosts []string

	// mu guards everything below. All services share one lock because they call each other, and the effects of one
	// call must become visible, and be stored, atomically.
	mu        sync.Mutex
	sqs       *sqs.Model
	dynamo    *dynamo.Model
	rooms     map[string]*waitingRoom // by queue name; never holds an empty room
	scheduler *scheduler.Model
	states    *states.Model
	events    *events.Model
	// alarm fires at alarmAt, the next time at which `scheduler` or `states` has work. It is nil if neither has work.
	alarm   *time.Timer
	alarmAt time.Time
	// statusChanges is the queue of Config.StatusChanges.
	statusChanges string
	statusFault   func(StatusChange) StatusChangeFault
	announced     uint64                // number of announced changes so far
	published     func(json.RawMessage) // Config.Published, may be nil
	// functions holds the Lambda functions that state machines can invoke, by name.
	functions map[string]*environments
	// store persists the models. It is set by Open and nil otherwise.
	store  *disk.Store
	opened time.Time
	closed bool
	// invocations holds the function invocations to start once the current change is on disk.
	invocations []func()
	// polled counts the pollers of each queue. A queue without a poller has no entry.
	polled map[string]int
	// busy counts the batches that pollers are processing and the invocations that executions have started.
	busy int
	// stopping is the reason passed to EndAdvances, or nil. `unpolled` is the queue that most recently lost its last
	// poller. Advance clears it at the start.
	stopping error
	unpolled string
	// stirred is closed at the next change, or when work that `busy` counts ends. It is nil until awaitIdle waits for
	// it.
	stirred chan struct{}
}

// New returns an empty Cloud that stores nothing on disk. It panics if config.Data is set (use Open) or if Register
// rejects one of config.Functions.
func New(config Config) *Cloud {
	if config.Data != "" {
		panic("awslocal: expected New without Config.Data, got " + config.Data + "; use Open")
	}
	c, err := newCloud(config)
	if err != nil {
		panic("awslocal: " + err.Error())
	}
	return c
}

func newCloud(config Config) (*Cloud, error) {
	config = config.withDefaults()
	c := &Cloud{
		now: config.Now, clock: config.Clock, advancing: make(chan struct{}, 1), sqs: sqs.New(), dynamo: dynamo.New(), scheduler: scheduler.New(), states: states.New(), events: events.New(), faults: newFaults(config),
		allowHosts: config.AllowHosts,
		rooms:      make(map[string]*waitingRoom), functions: make(map[string]*environments), polled: make(map[string]int),
		statusChanges: config.StatusChanges, statusFault: config.StatusChangeFault, published: config.Published,
	}
	c.dynamo.DelayTTL(max(0, config.TTLDelay))
	c.sqs.LimitScan(config.FIFOScanMessagesMax)
	if config.StatusChanges != "" {
		c.states.Announce()
	}
	for _, name := range slices.Sorted(maps.Keys(config.Functions)) {
		if err := c.Register(name, config.Functions[name]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

var _ http.Handler = (*Cloud)(nil)

// locked runs `work` on the models, applies its consequences, and waits until every change that `work` made or saw is
// on disk. All calls pass through here. Do not answer a call before locked returns. If locked returns an error, answer
// with that error.
func (c *Cloud) locked(work func(now time.Time)) *wire.Error {
	if err := c.change(work).Wait(); err != nil {
		return notStored(err)
	}
	return nil
}

// change is like locked, but does not wait for the disk. Time-driven work uses it, because no caller waits for an
// answer. Function invocations start only after the change is on disk. A closed Cloud no longer changes.
func (c *Cloud) change(work func(now time.Time)) disk.Ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.store.Commit(nil)
	}
	now := c.now()
	c.elapse(now)
	work(now)
	c.follow(now)
	ticket := c.commit()
	for _, invoke := range c.invocations {
		c.busy++
		go func() {
			defer c.finish()
			if ticket.Wait() == nil {
				invoke()
			}
		}()
	}
	c.invocations = nil
	c.stir()
	return ticket
}

// follow applies the consequences of a change: it performs the tasks of executions, delivers published events, sets the
// alarm for the next time-driven work, and lets waiting receives retry.
func (c *Cloud) follow(now time.Time) {
	c.performTasks(now)
	c.announce(now)
	c.deliver(now)
	c.setAlarm(now)
	for _, queue := range c.sqs.TakeTouched() {
		c.arrange(queue)
	}
}
