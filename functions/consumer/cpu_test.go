//go:build unix

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
)

var (
	cpuRuns      = flag.Int("cpu.runs", 1, "number of measured runs of each program and batch size")
	cpuInstances = flag.Int("cpu.instances", 10, "number of sign-ups in a run, a multiple of ten")
	cpuUpdate    = flag.Bool("cpu.update", false, "write the figures to docs/scaling.md")
)

const (
	codeKey = "0123456789abcdef0123456789abcdef"
	// functionMB is the memory of the deployed consumer.
	functionMB = 256
)

// signUp lists the events of one sign-up. %s stands for the mailed code.
var signUp = []string{
	`{"type":"SIGN_UP","name":"Ada Lovelace","email":"ada@example.com"}`,
	`{"type":"VERIFY","code":"none"}`,
	`{"type":"RESEND"}`,
	`{"type":"CHANGE_ADDRESS","email":"ada.lovelace@example.com"}`,
	`{"type":"VERIFY","code":"also none"}`,
	`{"type":"VERIFY","code":"%s"}`,
}

// sample is the CPU time of one run, with the calls that the run made.
type sample struct {
	cpu   time.Duration // user and system time per event, without the start of the process
	calls *recorder
}

// program is a program whose CPU time is measured.
type program struct {
	name, path string
	env        []string
}

// TestConsumerMakesTheCallsOfTheFloor compares the CPU time of the consumer with testdata/floor, a program that makes
// the same AWS calls with the bare SDK. It runs the floor with Go's defaults, and with the Go runtime settings that
// package host derives from the function's memory. The programs take turns, each in its own process. The test prints
// the CPU times, and fails if the calls differ.
//
//nolint:paralleltest // It measures.
func TestConsumerMakesTheCallsOfTheFloor(t *testing.T) {
	floor, recording := filepath.Join(t.TempDir(), "floor"), filepath.Join(t.TempDir(), "calls.json")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", floor, "./testdata/floor").CombinedOutput(); err != nil {
		t.Fatalf("building the floor: %v\n%s", err, out)
	}
	calls := "FLOOR_CALLS=" + recording
	programs := [...]program{
		{"consumer", buildConsumer(t), nil},
		{"floor", floor, []string{calls}},
		{"floor with the consumer's settings", floor, []string{calls, "GOGC=400", "GOMEMLIMIT=192MiB", "GOMAXPROCS=1"}},
	}
	table := "| events in a batch | consumer | floor | ratio | floor with the consumer's settings | ratio |\n|---|---|---|---|---|---|\n"
	for _, batch := range []int{1, 10} {
		recorded := measure(t, programs[0], batch).calls
		text, err := json.Marshal(recorded.byMessage)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recording, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var cpu [len(programs)][]time.Duration
		var ratios [len(programs)][]float64
		for range *cpuRuns {
			for i, program := range programs {
				got := measure(t, program, batch)
				got.calls.want(t, program.name, recorded.totals)
				cpu[i] = append(cpu[i], got.cpu)
				ratios[i] = append(ratios[i], float64(cpu[0][len(cpu[0])-1])/float64(got.cpu))
			}
		}
		table += fmt.Sprintf("| %d | %s |", batch, spread(cpu[0], microseconds))
		for i := range programs[1:] {
			table += fmt.Sprintf(" %s | %s |", spread(cpu[i+1], microseconds), spread(ratios[i+1], func(ratio float64) string { return fmt.Sprintf("%.2f", ratio) }))
		}
		table += "\n"
		t.Logf("batches of %d: %s for %d events", batch, recorded.totals, *cpuInstances*len(signUp))
	}
	t.Logf("\n%s", table)
	if *cpuUpdate {
		writeTable(t, "../../docs/scaling.md", "cpu", table)
	}
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// spread formats the median, the lowest and the highest of the values.
func spread[T float64 | time.Duration](of []T, format func(T) string) string {
	sorted := slices.Sorted(slices.Values(of))
	return fmt.Sprintf("**%s** (%s to %s)", format(sorted[len(sorted)/2]), format(sorted[0]), format(sorted[len(sorted)-1]))
}

// measure passes the events of all sign-ups to the program, and returns the program's CPU time. Each event of a batch
// belongs to a different instance.
func measure(t *testing.T, program program, batch int) sample {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	calls := &recorder{cloud: cloud, byMessage: map[string][]call{}, totals: totals{}}
	server := httptest.NewServer(calls)
	defer server.Close()
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String(server.URL), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	deployed := awslocal.BootstrapConfig{
		Path: program.path, FunctionName: "consumer", MemoryMB: functionMB, Timeout: time.Minute,
		Env: slices.Concat(createStack(t, config), program.env, []string{"AWS_ENDPOINT_URL=" + server.URL}),
	}
	start := cpuTime(t, deployed, func(function awslocal.Invoker) { invoke(t, function, nil) })
	store := dynamostore.New(dynamodb.NewFromConfig(config), "settle")
	used := cpuTime(t, deployed, func(function awslocal.Invoker) {
		for i := 0; i < *cpuInstances; i += batch {
			for round, step := range signUp {
				records := make([]events.SQSMessage, batch)
				for j := range records {
					id, body := instances.ID{Machine: "signup", ID: strconv.Itoa(i + j)}, step
					if strings.Contains(body, "%s") {
						body = fmt.Sprintf(body, mailedCode(t, store, id))
					}
					records[j] = messageOf(id, round, body)
				}
				calls.message = records[0].MessageId // Calls are recorded by message only for batches of one.
				invoke(t, function, records)
			}
		}
	})
	return sample{cpu: (used - start) / time.Duration(*cpuInstances*len(signUp)), calls: calls}
}

// createStack creates the queues and the table, and returns the environment variables that the template sets.
func createStack(t *testing.T, config aws.Config) []string {
	t.Helper()
	queues := sqs.NewFromConfig(config)
	url := func(name string, attributes map[string]string) string {
		output, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return *output.QueueUrl
	}
	if err := dynamostore.CreateIndexedTable(t.Context(), dynamodb.NewFromConfig(config), "settle"); err != nil {
		t.Fatal(err)
	}
	fifo := map[string]string{"FifoQueue": "true"}
	url("settle-delay-dlq", nil)
	return []string{
		host.Table + "=settle", host.TableIndex + "=on",
		host.QueueURL + "=" + url("settle.fifo", fifo), host.DeadLetterQueueURL + "=" + url("settle-dlq.fifo", fifo), host.DelayQueueURL + "=" + url("settle-delay", nil),
		host.DelayQueueARN + "=" + queueARN("settle-delay"), host.DelayDeadLetterQueueARN + "=" + queueARN("settle-delay-dlq"),
		host.SchedulerRoleARN + "=arn:aws:iam::" + awslocal.Account + ":role/scheduler",
		samples.SignupCodeKey + "=" + codeKey,
	}
}

func queueARN(name string) string {
	return "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + name
}

// cpuTime starts a process, uses it and kills it. It returns the process's user and system time.
func cpuTime(t *testing.T, deployed awslocal.BootstrapConfig, use func(awslocal.Invoker)) time.Duration {
	t.Helper()
	bootstrap, err := awslocal.NewBootstrap(deployed)
	if err != nil {
		t.Fatal(err)
	}
	before := cpuOfChildren(t)
	use(bootstrap.Start())
	if err := bootstrap.Close(); err != nil { // Close waits for the process.
		t.Fatal(err)
	}
	return cpuOfChildren(t) - before
}

func cpuOfChildren(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// invoke passes a batch to the function. The function must process all messages.
func invoke(t *testing.T, function awslocal.Invoker, records []events.SQSMessage) {
	t.Helper()
	payload, err := json.Marshal(events.SQSEvent{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := function.Invoke(t.Context(), payload)
	var response events.SQSEventResponse
	if err == nil {
		err = json.Unmarshal(answer, &response)
	}
	if err != nil || len(response.BatchItemFailures) > 0 {
		t.Fatalf("expected the function to process all messages, got %s, %v", answer, err)
	}
}

// messageOf returns the message of an event as Lambda passes it.
func messageOf(id instances.ID, round int, body string) events.SQSMessage {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	message := fmt.Sprintf("%s-%d", id.ID, round)
	return events.SQSMessage{
		MessageId: message, ReceiptHandle: strings.Repeat("r", 200), Body: body, Md5OfBody: strings.Repeat("0", 32),
		Attributes: map[string]string{
			"ApproximateReceiveCount": "1", "SentTimestamp": now, "ApproximateFirstReceiveTimestamp": now, "SenderId": "AIDAAWSLOCAL000000000",
			"SequenceNumber": fmt.Sprintf("%020d", round+1), "MessageGroupId": id.String(), "MessageDeduplicationId": message,
		},
		MessageAttributes: map[string]events.SQSMessageAttribute{},
		EventSource:       "aws:sqs", EventSourceARN: queueARN("settle.fifo"), AWSRegion: awslocal.Region,
	}
}

// mailedCode returns the code of the last mail. It finds the code whose hash is in the record.
func mailedCode(t *testing.T, store *dynamostore.Store, id instances.ID) string {
	t.Helper()
	record, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 20 {
		for position := range 10 {
			code := demo.Code(fmt.Sprintf("%s@%d/%d.%d", id, record.CreatedAt.UnixMilli(), step, position))
			mac := hmac.New(sha256.New, []byte(codeKey))
			mac.Write([]byte(id.String() + "\n" + code))
			if strings.Contains(string(record.Snapshot), hex.EncodeToString(mac.Sum(nil))) {
				return code
			}
		}
	}
	t.Fatalf("%s: expected the hash of a mailed code, got %s", id, record.Snapshot)
	return ""
}
