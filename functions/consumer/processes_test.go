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

	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// With these variables TestProcessesAreKilledUnderLoad has another size than in go test; make processes sets them.
const (
	processesInstances = "PROCESSES_INSTANCES"
	processesEvents    = "PROCESSES_EVENTS"
	processesKills     = "PROCESSES_KILLS"
	processesSeed      = "PROCESSES_SEED"
)

const (
	// consumers is how many processes settle dev runs behind the queue.
	consumers = 3
	// functionTimeout leaves a batch time, and brings what a killed consumer had in flight back after six times as
	// long. An event is parked only after ten batches in a row did not end in this time.
	functionTimeout = 20 * time.Second
)

// local is settle dev, in a process that is started again whenever it ends, and its consumers.
type local struct {
	t       *testing.T
	command []string
	log     *os.File
	config  aws.Config

	mu   sync.Mutex
	dev  *exec.Cmd // nil between two lives
	over bool
	// alive are the consumers, those that have outlived their settle dev included, by when they came.
	alive    []*os.Process
	started  int            // consumers
	payments map[string]int // the lines that services have reported
	lives    sync.WaitGroup

	devKills, consumerKills int
}

// freePort returns a port that no outgoing connection is given: whoever dials it while nobody listens must not
// meet himself there.
func freePort(t *testing.T, random *rand.Rand) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + random.IntN(10_000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close() // It has served its purpose.
			return port
		}
	}
	t.Fatal("found no free port")
	return ""
}

// startLocal builds settle, starts it, and keeps it running until the test ends.
func startLocal(ctx context.Context, t *testing.T, random *rand.Rand) *local {
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
			"--consumer", consumer, "--concurrency", strconv.Itoa(consumers), "--function-timeout", functionTimeout.String(),
			"--consumer-env", reportTo + "=" + reports.Addr().String()},
		config: aws.Config{Region: awslocal.Region, BaseEndpoint: aws.String("http://127.0.0.1:" + port), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")},
	}
	ctx, stop := context.WithCancel(ctx)
	l.lives.Go(func() { l.takeReports(reports) })
	l.lives.Go(func() { l.keepRunning(ctx) })
	t.Cleanup(func() {
		stop()
		_ = reports.Close() // Nobody needs it any more.
		l.mu.Lock()
		l.over = true
		for _, process := range l.alive {
			_ = process.Kill() // It ends by itself when the connection does.
		}
		l.mu.Unlock()
		l.lives.Wait()
		_ = log.Close() // Its disk is of no more interest.
	})
	return l
}

// keepRunning starts settle dev again whenever it was killed.
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
				l.t.Errorf("settle dev has ended by itself %d times, the last time with: %v", failures, err)
				return
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// takeReports knows the consumers by the connections that they make, and keeps what their services report.
func (l *local) takeReports(reports net.Listener) {
	for {
		conn, err := reports.Accept()
		if err != nil {
			return // closed
		}
		l.lives.Go(func() {
			defer conn.Close()
			lines := bufio.NewScanner(conn)
			if !lines.Scan() {
				return
			}
			pid, err := strconv.Atoi(lines.Text())
			if err != nil {
				l.t.Errorf("expected the ID of a process, got %q", lines.Text())
				return
			}
			// The process waits for the answer: it is the one that has this ID, and its handle stays its own.
			process, err := os.FindProcess(pid)
			if err != nil || !l.join(process) {
				return
			}
			_, _ = conn.Write([]byte("go on\n")) // If it is gone, the next read says so.
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

// join takes a consumer in, unless the test is over.
func (l *local) join(process *os.Process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.alive = append(l.alive, process)
		l.started++
	}
	return !l.over
}

// kill kills settle dev or one of its consumers, whichever the number says, as soon as there is one.
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
			l.alive = slices.Delete(l.alive, i, i+1) // It is dead, or will be known to be soon.
		case victim == 0 && l.dev != nil:
			if killed = l.dev.Process.Kill() == nil; killed {
				l.devKills++
			}
			l.dev = nil // until the next life
		}
		l.mu.Unlock()
		if killed {
			return
		}
	}
}

// killAll kills so many times, each at a random moment of the load. The last is settle dev: it makes what was in
// flight available again, and nobody waits at the end for what a killed consumer had.
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

// TestProcessesAreKilledUnderLoad runs settle dev --data with three processes of a consumer, and kills any of the
// four at random while producers send. In the end every instance is exactly what the sequential model says.
func TestProcessesAreKilledUnderLoad(t *testing.T) {
	t.Parallel()
	instances, events, kills := number(t, processesInstances, neighbours, 50), number(t, processesEvents, 1, 1000), number(t, processesKills, 0, 5)
	seed := uint64(number(t, processesSeed, 0, rand.IntN(1<<30)))
	t.Logf("%d instances, %d events, %d kills, seed %d", instances, events, kills, seed)
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // so that the processes end before the test program is
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		defer cancel()
	}
	random := rand.New(rand.NewPCG(seed, 1000))
	l := startLocal(ctx, t, random)
	began := time.Now()
	load := newLoad(sqs.NewFromConfig(l.config), l.queueURL("settle.fifo"), seed, instances, events)
	l.awaitQueue(ctx)

	var killer sync.WaitGroup
	killing, stopKilling := context.WithCancel(ctx)
	defer stopKilling()
	killer.Go(func() { l.killAll(killing, random, load, kills, events) })
	load.produce(ctx, t)
	if t.Failed() {
		stopKilling() // The moments that are left will never come.
	}
	killer.Wait()
	sent := time.Since(began)
	if !t.Failed() {
		l.check(ctx, load)
	}
	t.Logf("%v to send, %v in all: settle dev was killed %d times, consumers %d times, of which %d were started; %d sends were repeats",
		sent.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), l.devKills, l.consumerKills, l.started, load.repeated.Load())
	if t.Failed() {
		t.Logf("the end of the log:\n%s", l.tail())
	}
}

func (l *local) queueURL(name string) string {
	return *l.config.BaseEndpoint + "/" + awslocal.Account + "/" + name
}

// awaitQueue returns when settle dev serves.
func (l *local) awaitQueue(ctx context.Context) {
	l.t.Helper()
	client := sqs.NewFromConfig(l.config)
	for {
		_, err := waitingIn(ctx, client, l.queueURL("settle.fifo"))
		if err == nil {
			return
		}
		if ctx.Err() != nil || l.t.Failed() {
			l.t.Fatalf("settle dev does not serve: %v\n%s", err, l.tail())
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// check waits until all queues are empty, and compares what is stored with the model.
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
		l.t.Errorf("%d differences from the model; the first:\n%s", len(differences), strings.Join(differences[:min(len(differences), 10)], "\n"))
	}
	if l.started < consumers {
		l.t.Errorf("want at least %d consumers, got %d", consumers, l.started)
	}
}

// awaitRest waits until no queue holds a message, twice in a row, for one may be on its way from queue to queue. Shortly before go test ends
// the program, what the queues hold counts as lost.
func (l *local) awaitRest(ctx context.Context) error {
	client := sqs.NewFromConfig(l.config)
	counts := ""
	for empty := 0; empty < 2; pause(ctx, 300*time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("the time of go test is almost up, and there are messages left:%s", counts)
		}
		sum := int64(0)
		var now strings.Builder
		for _, name := range []string{"settle.fifo", "settle-delay", "settle-executions"} {
			n, err := waitingIn(ctx, client, l.queueURL(name))
			if err != nil && ctx.Err() == nil {
				return err
			}
			fmt.Fprintf(&now, " %s %d", name, n)
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
			return fmt.Errorf("want no message in %s, got %d", name, n)
		}
	}
	return nil
}

// tail returns the last lines that were logged and tell of more than events and metrics.
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
