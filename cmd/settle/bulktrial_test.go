package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// lamps returns the config of a command with the machine lamp. A lamp emits an event when it leaves the state `on`.
func lamps() command.Config {
	type (
		none  struct{}
		state = statechart.State[none]
	)
	settled := []string{statechart.Settled}
	lamp := statechart.Must(statechart.Definition[none]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"SWITCH": statechart.NoPayload()},
		States: []state{
			{ID: "off", Tags: settled, On: []statechart.Transition[none]{{Event: "SWITCH", Target: "on"}}},
			{ID: "on", Tags: settled, Exit: []statechart.Action[none]{statechart.Emit[none]("lamp.off", nil)}},
		},
	})
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(lamp, durable.MachineConfig{})}
	}}
}

// emitted is a logger's handler that counts the emitted events by their IDs.
type emitted struct {
	slog.Handler
	mu    sync.Mutex
	times map[string]int
}

// Enabled implements slog.Handler.
func (*emitted) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (e *emitted) Handle(_ context.Context, line slog.Record) error {
	if line.Message != "event published" {
		return nil
	}
	var event struct{ ID string }
	line.Attrs(func(attribute slog.Attr) bool {
		return attribute.Key != "detail" || json.Unmarshal([]byte(attribute.Value.String()), &event) == nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[event.ID]++
	return nil
}

// bulkTrial runs settle bulk stop in child processes, against a stack in this process. It is also the transport of the
// proxy that the child processes call. It kills the child process at random calls.
type bulkTrial struct {
	t        *testing.T
	stack    *stack.Stack
	endpoint string
	journal  string
	ctx      context.Context
	// serving counts the calls in progress. A call can outlive its process.
	serving sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	// moments holds, for each kill, the number of calls served before it. The first number counts calls from the start of
	// the list. The others are sorted and count calls from the first write, because later processes continue the run
	// without listing instances.
	moments        []int
	calls, counted int
	isWriting      bool
	process        *os.Process // nil between two processes
	// emitted counts the events that the lamps emitted.
	emitted *emitted
	// fates counts the kills by the fate of the call at which the process was killed.
	fates map[string]int
	// done counts the successful calls, by operation.
	done map[string]int
	// peak is the largest memory of a process without its executable, in KB.
	peak int
}

// startBulkTrial starts a stack with lamps that are on.
func startBulkTrial(t *testing.T, seed uint64, count, kills int) *bulkTrial {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	over := timeUp(t)
	go func() {
		select {
		case <-over: // The child processes end, and the test reports how far they came.
			cancel()
		case <-ctx.Done():
		}
	}()
	events := &emitted{Handler: slog.DiscardHandler, times: map[string]int{}}
	hosted := func(string) []durable.Machine { return lamps().Machines(command.Environment{}) }
	running, err := stack.Start(ctx, hosted, stack.Config{Logger: slog.New(events)})
	if err != nil {
		t.Fatal(err)
	}
	b := &bulkTrial{
		t: t, stack: running, ctx: ctx, journal: filepath.Join(t.TempDir(), "journal"), emitted: events,
		random: rand.New(rand.NewPCG(seed, 0)), fates: map[string]int{}, done: map[string]int{},
	}
	for range kills - 1 { // The first kill is drawn below.
		b.moments = append(b.moments, b.random.IntN(bulkCalls*max(count-bulkWorkers, 1)))
	}
	slices.Sort(b.moments)
	if kills > 0 {
		b.moments = slices.Insert(b.moments, 0, b.random.IntN(count))
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.RequestURI, r.Out.URL.Scheme, r.Out.URL.Host = "", "http", "aws.local"
		},
		Transport: b, ErrorLog: log.New(io.Discard, "", 0),
	})
	b.endpoint = proxy.URL
	t.Cleanup(func() {
		proxy.Close()
		if err := running.Close(); err != nil {
			t.Errorf("closing the stack: %v", err)
		}
	})
	b.fill(count)
	return b
}

// fill stores the instances: copies of an instance that the stack has run.
func (b *bulkTrial) fill(count int) {
	b.t.Helper()
	answer, err := b.stack.HTTPClient().Post(b.stack.HTTPURL()+"/instances/lamp/0/events", "application/json", strings.NewReader(`{"type": "SWITCH"}`))
	if err != nil {
		b.t.Fatal(err)
	}
	_ = answer.Body.Close() // The instance shows whether the gateway accepted the event.
	var record instances.Record
	for record.Revision == 0 {
		if b.ctx.Err() != nil {
			b.t.Fatal("the first lamp is not switched on")
		}
		if record, err = b.stack.Load(b.ctx, instances.ID{Machine: "lamp", ID: "0"}); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	record.Revision = 1
	store := dynamostore.NewIndexed(dynamodb.NewFromConfig(b.stack.AWS()), stack.Table)
	var writers sync.WaitGroup
	for writer := range bulkWorkers {
		writers.Go(func() {
			for i := 1 + writer; i < count; i += bulkWorkers {
				own := record
				own.Instance.ID = strconv.Itoa(i)
				if err := store.Commit(b.ctx, own); err != nil {
					b.t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// RoundTrip implements http.RoundTripper. It serves every call whose request is not lost, even if the calling process
// has died.
func (b *bulkTrial) RoundTrip(r *http.Request) (*http.Response, error) {
	b.serving.Add(1)
	defer b.serving.Done()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	fate, late := b.next(operation == "PutItem")
	if fate == "lost" {
		return nil, errors.New("the request is lost")
	}
	time.Sleep(late)
	answer, err := b.stack.AWS().HTTPClient.Do(r.WithContext(context.WithoutCancel(r.Context())))
	if err == nil && answer.StatusCode == http.StatusOK {
		b.mu.Lock()
		b.done[operation]++
		b.mu.Unlock()
	}
	return answer, err
}

// next counts a call. If the next kill is due, it kills the calling process and returns the fate of the call.
// Otherwise, the fate is empty.
func (b *bulkTrial) next(isWrite bool) (fate string, late time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if isWrite && !b.isWriting {
		b.isWriting, b.counted = true, 0
	}
	b.calls++
	b.counted++
	isEarly := len(b.moments) == 0 || b.counted <= b.moments[0]
	if isEarly || b.process == nil || !b.isWriting && len(b.fates) > 0 {
		return "", 0
	}
	b.notePeak()
	_ = b.process.Kill() // Kill fails only if the process has ended by itself. The test then reports a wrong number of kills.
	b.process, b.moments = nil, b.moments[1:]
	fate = []string{"lost", "served", "late"}[b.random.IntN(3)]
	if fate == "late" { // The call arrives while the next process starts or works.
		late = time.Duration(b.random.IntN(500)) * time.Millisecond
	}
	b.fates[fate]++
	return fate, late
}

var memoryLine = regexp.MustCompile(`(?m)^(VmHWM|RssFile):\s+(\d+) kB$`)

// notePeak updates peak. It needs Linux.
func (b *bulkTrial) notePeak() {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Pid)) // The process may have ended.
	kilobytes := map[string]int{}
	for _, line := range memoryLine.FindAllStringSubmatch(string(text), -1) {
		kilobytes[line[1]], _ = strconv.Atoi(line[2])
	}
	b.peak = max(b.peak, kilobytes["VmHWM"]-kilobytes["RssFile"])
}

// live runs settle bulk stop until it ends or is killed.
func (b *bulkTrial) live() (out, errOut string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	child := exec.CommandContext(b.ctx, program, "bulk", "stop", "--local", "--machine", "lamp", "--yes", "--rate", "1000000", "--journal", b.journal, "-o", "json")
	child.Env = append(os.Environ(), actAsSettle+"="+actOnLamps, "AWS_ENDPOINT_URL="+b.endpoint)
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	if _, err := child.StdinPipe(); err != nil {
		return "", "", err
	}
	b.mu.Lock()
	if err = child.Start(); err == nil {
		b.process = child.Process
	}
	b.mu.Unlock()
	if err != nil {
		return "", "", err
	}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for ticker := time.Tick(10 * time.Millisecond); ; {
			select {
			case <-ended:
				return
			case <-ticker:
				b.mu.Lock()
				if b.process != nil {
					b.notePeak()
				}
				b.mu.Unlock()
			}
		}
	})
	err = child.Wait()
	close(ended)
	watch.Wait()
	b.mu.Lock()
	b.process = nil
	b.mu.Unlock()
	return stdout.String(), stderr.String(), err
}
