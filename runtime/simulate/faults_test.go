package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra/awslocal"
)

// mortal is a Lambda function whose process can die: the invocation fails, and the next one starts a new process.
type mortal struct {
	name   string
	faults *faults
	start  func(aws.HTTPClient) awslocal.Invoker
	cloud  *awslocal.Cloud

	mu      sync.Mutex
	process string // the name of the process's AWS client; empty before the first invocation
	handler awslocal.Invoker
}

// Invoke implements awslocal.Invoker.
func (m *mortal) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	m.faults.invoked(m.name)
	m.mu.Lock()
	if m.process == "" || m.faults.dead(m.process) {
		m.process = m.faults.newProcess(m.name)
		m.handler = m.start(m.cloud.Client(m.process))
	}
	current, handler := m.process, m.handler
	m.mu.Unlock()
	ctx, exit := context.WithCancel(context.WithValue(ctx, processNameKey{}, current))
	defer exit()
	m.faults.exits(current, exit)
	answer, err := handler.Invoke(ctx, payload)
	if m.faults.dead(current) {
		return nil, errors.New("the process exited before it responded")
	}
	return answer, err
}

// processNameKey is the context key of the process's name.
type processNameKey struct{}

// kill ends the process of a running service. It does not return.
func (f *faults) kill(ctx context.Context) {
	process := ctx.Value(processNameKey{}).(string)
	f.mu.Lock()
	if f.ended == nil {
		f.ended = map[string]bool{}
	}
	f.ended[process] = true
	exit := f.exit[process]
	f.mu.Unlock()
	exit()
	<-ctx.Done()
}

// exits stores the function that ends a process's invocation.
func (f *faults) exits(process string, exit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit == nil {
		f.exit = map[string]func(){}
	}
	f.exit[process] = exit
}

// fault is the fault of one call.
type fault int

const (
	_ fault = iota // no fault
	// failBefore fails the call before it has an effect.
	failBefore
	// loseAnswer loses the response of a call that took effect.
	loseAnswer
	// throttle makes AWS refuse the call.
	throttle
	// duplicate makes the call take effect twice. The client gets the second response.
	duplicate
	// freeze stops the process before the call takes effect. The process continues when its messages are visible to
	// others again.
	freeze
	// dieBefore and dieAfter end the process before or after the call takes effect.
	dieBefore
	dieAfter
)

func (f fault) String() string {
	return [...]string{"none", "fail before", "lose answer", "throttle", "duplicate", "freeze", "die before", "die after"}[f]
}

// faults counts the AWS calls of processes and hits one of the calls with a fault.
type faults struct {
	// `at` is the number of the call to hit, from 1; 0 hits none.
	at   int
	kind fault

	// losing is a target, such as sqs.SendMessage. Its first, third, fifth call and so on lose their response.
	losing string

	// latency is the latency of each call.
	latency time.Duration

	mu          sync.Mutex
	exit        map[string]func() // by process
	calls       []string          // each call in the form "sqs.SendMessage"
	processes   int
	ended       map[string]bool // processes that died, by name
	invocations map[string]int  // by function
	lost        int             // number of calls so far to the target in `losing`
}

// invoked counts an invocation of a function.
func (f *faults) invoked(function string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.invocations == nil {
		f.invocations = map[string]int{}
	}
	f.invocations[function]++
}

// newProcess returns the name of a new process.
func (f *faults) newProcess(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes++
	return fmt.Sprintf("%s %d", name, f.processes)
}

func (f *faults) dead(process string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[process]
}

// hitting is awslocal's Config.Fault. The calls of a dead process never reach AWS.
func (f *faults) hitting(call awslocal.Call) awslocal.Fault {
	if call.Client == "" { // the gateway, or the test itself
		return awslocal.Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[call.Client] {
		return awslocal.Fault{RequestLost: true}
	}
	target := call.Service + "." + call.Operation
	f.calls = append(f.calls, target)
	if target == f.losing {
		f.lost++
		return awslocal.Fault{Before: f.latency, AnswerLost: f.lost%2 == 1}
	}
	if len(f.calls) != f.at {
		return awslocal.Fault{Before: f.latency}
	}
	if f.kind == dieBefore || f.kind == dieAfter {
		f.ended = map[string]bool{call.Client: true}
	}
	switch f.kind {
	case failBefore, dieBefore:
		return awslocal.Fault{RequestLost: true}
	case loseAnswer, dieAfter:
		return awslocal.Fault{AnswerLost: true}
	case throttle:
		return awslocal.Fault{Throttled: true}
	case duplicate:
		return awslocal.Fault{Duplicated: true}
	case freeze:
		return awslocal.Fault{Frozen: 90 * time.Second}
	}
	return awslocal.Fault{}
}

// hit returns the service and operation of the call that was hit. Groups run concurrently, so the order of calls may
// differ between runs.
func (f *faults) hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at < 1 || f.at > len(f.calls) {
		return "never made"
	}
	return f.calls[f.at-1]
}

// count returns the number of calls with the target, such as sqs.SendMessage.
func (f *faults) count(target string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == target {
			n++
		}
	}
	return n
}
