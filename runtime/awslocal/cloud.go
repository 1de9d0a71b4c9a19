// Package awslocal is AWS on this machine: SQS, DynamoDB, EventBridge Scheduler and Step
// Functions behind the wire protocols that the AWS SDKs and the aws CLI speak, and what calls
// Lambda functions: a poller that hands them queue messages as an event source mapping does,
// the tasks of state machines, and a Runtime API for the executables that are deployed.
//
// A Cloud serves in process through HTTPClient, which needs no socket, or on a loopback port
// through Listen. The models behind it read no clock but Config.Now and draw no random
// numbers, and what waits, waits on channels and timers alone: inside a testing/synctest
// bubble everything here runs in virtual time, and the same calls give the same answers. Only
// what several functions answer at one and the same instant comes in no fixed order.
//
// What AWS would do and awslocal cannot, it refuses with an error that names it. There is
// one account and one Region, and any credentials are accepted. What a Cloud of Open keeps in
// a data folder survives a kill of the process; what one of New holds ends with it.
package awslocal

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/disk"
	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo"
	"github.com/settle-run/settle/runtime/awslocal/internal/scheduler"
	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
	"github.com/settle-run/settle/runtime/awslocal/internal/states"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

const (
	// Account is the AWS account that every queue and table belongs to.
	Account = wire.Account
	// Region is the AWS Region that every queue and table belongs to. Requests signed for
	// another Region are served all the same.
	Region = wire.Region
)

// Config tunes a Cloud. The zero value is ready to use.
type Config struct {
	// Now is the clock. It must not run backwards, from one opening of a data folder to the
	// next included, and must run with the timers of package time, which end long polls: the
	// two disagree in nothing but a constant. Defaults to time.Now.
	Now func() time.Time
	// Fault, unless it is nil, is asked what goes wrong with each call. It is called by the
	// goroutines that make the calls, several at once; it may block, and the call with it.
	Fault func(Call) Fault
	// DeliveryFault, unless it is nil, is asked what goes wrong with each batch that Poll has
	// received, under the same terms.
	DeliveryFault func(Delivery) DeliveryFault
	// StatusChanges is the name or the URL of a standard queue that gets EventBridge's event "Step
	// Functions Execution Status Change" whenever an execution begins or ends, as by a rule without a
	// filter. Empty means that nobody listens.
	StatusChanges string
	// StatusChangeFault, unless it is nil, is asked what goes wrong with each of those events. It must not
	// call the Cloud.
	StatusChangeFault func(StatusChange) StatusChangeFault
	// TTLDelay is how long an item outlives its deadline. Defaults to a minute; negative deletes at once. AWS
	// deletes within a few days (DynamoDB Developer Guide, "Using time to live").
	TTLDelay time.Duration
	// Data is the folder that Open keeps all services in: messages, items, schedules,
	// executions. It is made if it is not there. Empty means that nothing survives the process.
	Data string
	// Functions are registered from the start, by name, as by Cloud.Register: the executions
	// that a data folder holds invoke them as soon as it is open.
	Functions map[string]Function
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TTLDelay == 0 {
		c.TTLDelay = dynamo.TTLDelay
	}
	return c
}

// Cloud is one account's queues, tables, schedules and state machines. It is safe for concurrent use.
type Cloud struct {
	now      func() time.Time
	requests atomic.Uint64 // served so far
	faults   *faults       // nil: nothing goes wrong

	// mu guards everything below. There is one lock for all services because they call one
	// another, and what one call brings about must be seen, and kept, as a whole.
	mu        sync.Mutex
	sqs       *sqs.Model
	dynamo    *dynamo.Model
	rooms     map[string]*waitingRoom // by queue name; none is empty
	scheduler *scheduler.Model
	states    *states.Model
	// What time brings next to scheduler and states is due at alarmAt; alarm is nil if nothing is.
	alarm   *time.Timer
	alarmAt time.Time
	// statusChanges is the queue of Config.StatusChanges, which gets what became of executions.
	statusChanges string
	statusFault   func(StatusChange) StatusChangeFault
	announced     uint64 // so far
	// functions are the Lambda functions that state machines can invoke, by name.
	functions map[string]*environments
	// store keeps what the models hold, since opened; nil: nothing does.
	store  *disk.Store
	opened time.Time
	closed bool
	// begun are the invocations that the change under way has brought about.
	begun []func()
}

// New returns a Cloud without queues or tables, which keeps nothing. It panics if config has
// a data folder, which is for Open, or a function that Register refuses.
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
		now: config.Now, sqs: sqs.New(), dynamo: dynamo.New(), scheduler: scheduler.New(), states: states.New(), faults: newFaults(config),
		rooms: make(map[string]*waitingRoom), functions: make(map[string]*environments),
		statusChanges: config.StatusChanges, statusFault: config.StatusChangeFault,
	}
	c.dynamo.DelayTTL(max(0, config.TTLDelay))
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

// locked performs work on the models, and whatever follows from it, and waits until all that
// it may have seen or changed is kept. All calls pass through here: nothing may be answered
// before locked returns, or if it returns an error.
func (c *Cloud) locked(work func(now time.Time)) *wire.Error {
	if err := c.change(work).Wait(); err != nil {
		return notKept(err)
	}
	return nil
}

// change is locked without the waiting, for what time brings about, which nobody is told.
// Functions are told, so they are invoked once the change is kept. A closed Cloud does not
// change any more.
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
	for _, invoke := range c.begun {
		go func() {
			if ticket.Wait() == nil {
				invoke()
			}
		}()
	}
	c.begun = nil
	return ticket
}

// follow does what a change of the models brings about: executions call what their tasks
// name, the alarm is set for what time brings next, and receives that wait try again.
func (c *Cloud) follow(now time.Time) {
	c.performTasks(now)
	c.announce(now)
	c.setAlarm(now)
	for _, queue := range c.sqs.TakeTouched() {
		c.arrange(queue)
	}
}
