package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/statechart"
)

// reportTo is the environment variable with the address that a consumer process reports to. If the variable is set, the
// test program runs as a consumer's bootstrap instead of running tests.
const reportTo = "SETTLE_TEST_REPORT_TO"

func TestMain(m *testing.M) {
	if address := os.Getenv(reportTo); address != "" {
		consume(address)
		return
	}
	os.Exit(m.Run())
}

// consume is the consumer's main with the machines below. The process ends when the test ends.
func consume(address string) {
	signal.Ignore(syscall.SIGPIPE) // A write to the closed pipe must not end a process that outlives settle dev.
	report, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(report, "%d\n", os.Getpid())
	test := bufio.NewReader(report)
	if _, err := test.ReadString('\n'); err != nil { // The test answers when it has a handle on this process.
		os.Exit(1)
	}
	go func() {
		_, _ = test.ReadString('\n') // until the test ends
		os.Exit(1)
	}()
	pay := func(_ context.Context, a account, call statechart.Call) (payment, error) {
		_, err := fmt.Fprintf(report, "%s %s %s\n", call.Key, call.Instance, a.Paying.ID())
		if a.Paying.Amount == slowAmount {
			time.Sleep(10 * time.Minute)
		}
		return payment{Amount: a.Paying.Amount}, err
	}
	host.Main(host.Consumer(func(*host.Process) ([]durable.Machine, error) { return []durable.Machine{accounts(pay), hands()}, nil }))
}

// slowAmount is the amount of an order whose payment takes ten minutes.
const slowAmount = -1

type (
	// order is the payload of every event that producers send.
	order struct {
		Producer int   `json:"producer"`
		Serial   int   `json:"serial"` // the order's number in its producer's sequence
		Amount   int64 `json:"amount"`
	}
	payment struct {
		Amount int64 `json:"amount"`
	}
	// tally counts the inputs of one kind and sums their amounts.
	tally struct {
		Count int   `json:"count"`
		Sum   int64 `json:"sum"`
	}
	// account is the context of the machine under load. Digest depends on the order of the events that the machine does
	// not defer. No field depends on when timers fire or when children, services and other instances answer.
	account struct {
		Digest string `json:"digest"`
		Added  tally  `json:"added"`
		Told   tally  `json:"told"`  // inputs from another instance
		Later  tally  `json:"later"` // inputs from delayed sends
		Rung   tally  `json:"rung"`  // inputs from a state's timer
		Hired  tally  `json:"hired"` // inputs from children
		Paid   tally  `json:"paid"`  // inputs from services
		Failed int    `json:"failed"`
		Paying order  `json:"paying"` // the latest
		Hiring order  `json:"hiring"`
	}
)

// ID identifies the order by producer and serial number.
func (o order) ID() string { return fmt.Sprintf("%d-%d", o.Producer, o.Serial) }

func (t *tally) add(amount int64) { t.Count++; t.Sum += amount }

// digest adds an event to the digest.
func digest(before, event string, o order) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %s %s %d", before, event, o.ID(), o.Amount)
	return fmt.Sprintf("%016x", hash.Sum64())
}

// neighbour returns the account that receives TOLD for the order.
func neighbour(o order) string { return "account/" + fmt.Sprint(o.Amount%neighbours) }

// neighbours is the number of accounts that can receive TOLD. A run has at least that many accounts.
const neighbours = 40

// The events of the machine under load.
const (
	add   = "ADD"   // adds the amount
	tell  = "TELL"  // sends TOLD to another instance
	later = "LATER" // sends NOW to itself after a delay
	wind  = "WIND"  // starts a timer; defers later WIND events until the timer fires
	hire  = "HIRE"  // starts a child and adds its output; defers later HIRE events until the child ends
	pay   = "PAY"   // calls a service
)

// accounts hosts the machine under load. The machine uses sends, delayed sends, timers, deferred events, children and
// services.
func accounts(service func(context.Context, account, statechart.Call) (payment, error)) durable.Machine {
	type (
		on    = statechart.Transition[account]
		do    = []statechart.Action[account]
		state = statechart.State[account]
	)
	settled := []string{statechart.Settled}
	region := func(id, initial string, states ...state) state {
		return state{ID: id, Initial: initial, States: states}
	}
	digested := func(event string) statechart.Action[account] {
		return statechart.Assign("digest "+event, func(a *account, o order) { a.Digest = digest(a.Digest, event, o) })
	}
	count := func(name string, of func(*account) *tally) statechart.Action[account] {
		return statechart.Assign(name, func(a *account, o order) { of(a).add(o.Amount) })
	}
	payloads := statechart.Payloads{"TOLD": statechart.PayloadOf[order](), "NOW": statechart.PayloadOf[order]()}
	for _, event := range []string{add, tell, later, wind, hire, pay} {
		payloads[event] = statechart.PayloadOf[order]()
	}
	return durable.Host(statechart.Must(statechart.Definition[account]{
		ID: "account", Version: 1, Parallel: true, Payloads: payloads,
		States: []state{
			region("book", "open", state{ID: "open", Tags: settled, On: []on{
				{Event: add, Actions: do{digested(add), count("added", func(a *account) *tally { return &a.Added })}},
				{Event: tell, Actions: do{digested(tell), statechart.SendTo("TOLD", func(_ account, e statechart.Event) (string, any) {
					o, _ := e.Payload.(order)
					return neighbour(o), o
				})}},
				{Event: "TOLD", Actions: do{count("told", func(a *account) *tally { return &a.Told })}},
				{Event: later, Actions: do{digested(later), statechart.SendAfter("", "NOW", func(_ account, e statechart.Event) (time.Duration, any) {
					return 700 * time.Millisecond, e.Payload
				})}},
				{Event: "NOW", Actions: do{count("later", func(a *account) *tally { return &a.Later })}},
			}}),
			region("clock", "stopped",
				state{ID: "stopped", Tags: settled, On: []on{{Event: wind, Target: "running"}}},
				state{ID: "running", Tags: settled, Defer: []string{wind}, After: []statechart.After[account]{{Delay: 300 * time.Millisecond, Target: "stopped",
					Actions: do{statechart.Update("rung", func(a *account) { a.Rung.add(1) })}}}}),
			region("crew", "free",
				state{ID: "free", Tags: settled, On: []on{{Event: hire, Target: "busy", Actions: do{statechart.Assign("hiring", func(a *account, o order) { a.Hiring = o })}}}},
				state{ID: "busy", Tags: settled, Defer: []string{hire}, Children: []statechart.Child[account]{{ID: "hand", Machine: "hand",
					Input: func(a account, _ statechart.Event) any { return a.Hiring },
					OnDone: []on{{Target: "free", Actions: do{statechart.TryAssign("hired", func(a *account, output json.RawMessage) error {
						var made int64
						err := json.Unmarshal(output, &made)
						a.Hired.add(made)
						return err
					})}}},
					OnError: []on{{Target: "free", Actions: do{statechart.Update("not hired", func(a *account) { a.Failed++ })}}},
				}}}),
			region("till", "shut",
				state{ID: "shut", Tags: settled, On: []on{{Event: pay, Target: "paying", Actions: do{digested(pay), statechart.Assign("paying", func(a *account, o order) { a.Paying = o })}}}},
				state{ID: "paying", Invoke: []statechart.Invoke[account]{{ID: "pay", Service: statechart.ServiceFunc("pay", service),
					Retry:   statechart.RetryPolicy{Attempts: 100, Interval: 100 * time.Millisecond, IntervalMax: time.Second},
					OnDone:  []on{{Target: "shut", Actions: do{statechart.Assign("paid", func(a *account, p payment) { a.Paid.add(p.Amount) })}}},
					OnError: []on{{Target: "shut", Actions: do{statechart.Update("not paid", func(a *account) { a.Failed++ })}}},
				}}}),
		},
	}), durable.MachineConfig{})
}

// hands hosts the child machine: after a delay, it squares its amount.
func hands() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[order]{
		ID: "hand", Version: 1, Initial: "working", Input: statechart.PayloadOf[order](),
		Context: func(s statechart.Start) order { o, _ := s.Input.(order); return o },
		States: []statechart.State[order]{
			{ID: "working", Tags: []string{statechart.Settled}, After: []statechart.After[order]{{Delay: 100 * time.Millisecond, Target: "done"}}},
			{ID: "done", Type: statechart.Final, Output: func(o order, _ statechart.Event) any { return o.Amount * o.Amount }},
		},
	}), durable.MachineConfig{})
}
