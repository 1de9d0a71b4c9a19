package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// make processes sets these variables to run TestProcessesAreKilledUnderLoad at a larger size than go test does.
const (
	processesInstances = "PROCESSES_INSTANCES"
	processesEvents    = "PROCESSES_EVENTS"
	processesKills     = "PROCESSES_KILLS"
	processesSeed      = "PROCESSES_SEED"
)

const (
	// consumers is the number of consumer processes behind the queue.
	consumers = 3
	// functionTimeout is long enough for a batch. A killed consumer's messages become visible again after at most six
	// times functionTimeout. An event is parked only if ten batches with this event end with a killed consumer
	// (durable.Config.AbandonedMax), for example because each batch exceeds functionTimeout.
	functionTimeout = 20 * time.Second
)

// local is settle dev with its consumers. keepRunning restarts settle dev whenever it ends.
type local struct {
	t       *testing.T
	command []string
	log     *os.File
	config  aws.Config

	mu   sync.Mutex
	dev  *exec.Cmd // nil between restarts
	over bool
	// alive lists the consumers in the order in which they started, including those that outlived their settle dev.
	alive    []*os.Process
	started  int            // number of consumers started
	payments map[string]int // counts of the lines that services reported
	lives    sync.WaitGroup

	devKills, consumerKills int
}

// freePort returns a port outside the range of ephemeral ports. A client that dials an ephemeral port with no listener
// can connect to itself.
func freePort(t *testing.T, random *rand.Rand) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + random.IntN(10_000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close() // Closing only releases the port.
			return port
		}
	}
	t.Fatal("found no free port")
	return ""
}

// startLocal builds settle, starts it and keeps it running until the test ends.
func startLocal(ctx context.Context, t *testing.T, random *rand.Rand, timeout time.Duration) *local {
	t.Helper()
	dir := t.TempDir()
	settle := filepath.Join(dir, "settle")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", settle, "../../cmd/settle").CombinedOutput(); err != nil {
		t.Fatalf("building settle: %v\n%s", err, out)
	}
	consumer, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reports, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t, random)
	l := &local{t: t, log: log, payments: map[string]int{},
		command: []string{settle, "dev", "--data", filepath.Join(dir, "data"), "--aws-port", port, "--http-port", "0",
			"--consumer", consumer, "--concurrency", strconv.Itoa(consumers), "--function-timeout", timeout.String(),
			"--consumer-env", reportTo + "=" + reports.Addr().String()},
		config: aws.Config{Region: awslocal.Region, BaseEndpoint: aws.String("http://127.0.0.1:" + port), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")},
	}
	ctx, stop := context.WithCancel(ctx)
	l.lives.Go(func() { l.takeReports(reports) })
	l.lives.Go(func() { l.keepRunning(ctx) })
	t.Cleanup(func() {
		stop()
		_ = reports.Close() // The test is over.
		l.mu.Lock()
		l.over = true
		for _, process := range l.alive {
			_ = process.Kill() // The process also ends when its connection closes.
		}
		l.mu.Unlock()
		l.lives.Wait()
		_ = log.Close() // The test is over.
	})
	return l
}

// keepRunning restarts settle dev whenever it is killed.
func (l *local) keepRunning(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		dev := exec.CommandContext(ctx, l.command[0], l.command[1:]...)
		dev.Stdout, dev.Stderr = l.log, l.log
		l.mu.Lock()
		err := dev.Start()
		if err == nil {
			l.dev = dev
		}
		l.mu.Unlock()
		if err == nil {
			err = dev.Wait()
		}
		l.mu.Lock()
		l.dev = nil
		l.mu.Unlock()
		if ctx.Err() == nil && !strings.Contains(fmt.Sprint(err), "signal: killed") {
			if failures++; failures == 10 {
				l.t.Errorf("settle dev exited without being killed %d times, last error: %v", failures, err)
				return
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// takeReports registers consumers by their connections and stores the reports of their services.
func (l *local) takeReports(reports net.Listener) {
	for {
		conn, err := reports.Accept()
		if err != nil {
			return // The listener is closed.
		}
		l.lives.Go(func() {
			defer conn.Close()
			lines := bufio.NewScanner(conn)
			if !lines.Scan() {
				return
			}
			pid, err := strconv.Atoi(lines.Text())
			if err != nil {
				l.t.Errorf("expected a process ID, got %q", lines.Text())
				return
			}
			// The process waits for the answer, so its ID is not reused and the handle stays valid.
			process, err := os.FindProcess(pid)
			if err != nil || !l.join(process) {
				return
			}
			_, _ = conn.Write([]byte("go on\n")) // If the process is gone, the next read fails.
			for lines.Scan() {
				l.mu.Lock()
				l.payments[lines.Text()]++
				l.mu.Unlock()
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.alive = slices.DeleteFunc(l.alive, func(p *os.Process) bool { return p == process })
		})
	}
}

// join registers a consumer, unless the test is over.
func (l *local) join(process *os.Process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.alive = append(l.alive, process)
		l.started++
	}
	return !l.over
}

// kill kills one process as soon as possible: settle dev if `victim` is 0, otherwise a random consumer.
func (l *local) kill(ctx context.Context, random *rand.Rand, victim int) {
	for ; ctx.Err() == nil; pause(ctx, time.Millisecond) {
		l.mu.Lock()
		killed := false
		switch {
		case victim > 0 && len(l.alive) > 0:
			i := random.IntN(len(l.alive))
			if killed = l.alive[i].Kill() == nil; killed {
				l.consumerKills++
			}
			l.alive = slices.Delete(l.alive, i, i+1) // The process is dead, or will be shortly.
		case victim == 0 && l.dev != nil:
			if killed = l.dev.Process.Kill() == nil; killed {
				l.devKills++
			}
			l.dev = nil // nil until the restart
		}
		l.mu.Unlock()
		if killed {
			return
		}
	}
}

// killAll kills `kills` processes at random moments of the load, settle dev last. The restart of settle dev makes
// messages in flight visible again, so the final check does not wait for the messages of a killed consumer.
func (l *local) killAll(ctx context.Context, random *rand.Rand, load *load, kills, events int) {
	moments := make([]int64, kills)
	for i := range moments {
		moments[i] = random.Int64N(int64(events))
	}
	slices.Sort(moments)
	for i, moment := range moments {
		for load.accepted.Load() < moment && ctx.Err() == nil {
			pause(ctx, time.Millisecond)
		}
		pause(ctx, time.Duration(random.IntN(50))*time.Millisecond)
		victim := random.IntN(1 + consumers)
		if i == kills-1 {
			victim = 0
		}
		l.kill(ctx, random, victim)
	}
}

// TestProcessesAreKilledUnderLoad runs settle dev --data with three consumer processes. It kills the four processes at
// random while producers send events. At the end, every instance must match the sequential model.
func TestProcessesAreKilledUnderLoad(t *testing.T) {
	t.Parallel()
	instances, events, kills := number(t, processesInstances, neighbours, 50), number(t, processesEvents, 1, 1000), number(t, processesKills, 0, 5)
	seed := uint64(number(t, processesSeed, 0, rand.IntN(1<<30)))
	t.Logf("%d instances, %d events, %d kills, seed %d", instances, events, kills, seed)
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // Stop the processes shortly before the test times out.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		defer cancel()
	}
	random := rand.New(rand.NewPCG(seed, 1000))
	l := startLocal(ctx, t, random, functionTimeout)
	began := time.Now()
	load := newLoad(sqs.NewFromConfig(l.config), l.queueURL("settle.fifo"), seed, instances, events)
	l.awaitQueue(ctx)

	var killer sync.WaitGroup
	killing, stopKilling := context.WithCancel(ctx)
	defer stopKilling()
	killer.Go(func() { l.killAll(killing, random, load, kills, events) })
	load.produce(ctx, t)
	if t.Failed() {
		stopKilling() // The remaining kills will not happen.
	}
	killer.Wait()
	sent := time.Since(began)
	if !t.Failed() {
		l.check(ctx, load)
	}
	t.Logf("sent in %v, finished in %v: killed settle dev %d times and consumers %d times; started %d consumers; retried %d sends",
		sent.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), l.devKills, l.consumerKills, l.started, load.repeated.Load())
	if t.Failed() {
		t.Logf("last lines of the log:\n%s", l.tail())
	}
}

func (l *local) queueURL(name string) string {
	return *l.config.BaseEndpoint + "/" + awslocal.Account + "/" + name
}

// awaitQueue waits until settle dev accepts requests.
func (l *local) awaitQueue(ctx context.Context) {
	l.t.Helper()
	client := sqs.NewFromConfig(l.config)
	for {
		_, err := waitingIn(ctx, client, l.queueURL("settle.fifo"))
		if err == nil {
			return
		}
		if ctx.Err() != nil || l.t.Failed() {
			l.t.Fatalf("settle dev does not answer: %v\n%s", err, l.tail())
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// check waits until all queues are empty and compares the stored records with the model.
func (l *local) check(ctx context.Context, load *load) {
	l.t.Helper()
	model, err := load.model()
	if err != nil {
		l.t.Error(err)
		return
	}
	if err := l.awaitRest(ctx); err != nil {
		l.t.Error(err)
	}
	store := dynamostore.New(dynamodb.NewFromConfig(l.config), "settle")
	differences := model.compare(ctx, store)
	l.mu.Lock()
	reported := l.payments
	l.mu.Unlock()
	differences = append(differences, model.comparePayments(reported)...)
	if len(differences) > 0 {
		l.t.Errorf("%d differences from the model, the first of them:\n%s", len(differences), strings.Join(differences[:min(len(differences), 10)], "\n"))
	}
	if l.started < consumers {
		l.t.Errorf("want at least %d consumers, got %d", consumers, l.started)
	}
}

// awaitRest waits until it has seen all queues empty twice in a row, because a message may be moving between two
// queues. Messages still queued shortly before the deadline of go test count as lost.
func (l *local) awaitRest(ctx context.Context) error {
	client := sqs.NewFromConfig(l.config)
	counts := ""
	for empty := 0; empty < 2; pause(ctx, 300*time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("messages left shortly before the deadline of go test:%s", counts)
		}
		sum := int64(0)
		var now strings.Builder
		for _, name := range []string{"settle.fifo", "settle-delay", "settle-executions"} {
			n, err := waitingIn(ctx, client, l.queueURL(name))
			if err != nil { // settle dev is still restarting after the last kill.
				fmt.Fprintf(&now, " %s (%v)", name, err)
				n = 1
			} else {
				fmt.Fprintf(&now, " %s %d", name, n)
			}
			sum += n
		}
		counts = now.String()
		if empty++; sum > 0 {
			empty = 0
		}
	}
	for _, name := range []string{"settle-dlq.fifo", "settle-delay-dlq", "settle-executions-dlq"} {
		n, err := waitingIn(ctx, client, l.queueURL(name))
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("want %s empty, got %d messages", name, n)
		}
	}
	return nil
}

// tail returns the last log lines that are neither events nor metrics.
func (l *local) tail() string {
	text, err := os.ReadFile(l.log.Name())
	if err != nil {
		return err.Error()
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"msg":"event applied"`)) && !bytes.HasPrefix(line, []byte(`{"AWSCalls"`)) {
			lines = append(lines, line)
		}
	}
	return string(bytes.Join(lines[max(0, len(lines)-40):], nil))
}
