package conformance_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/awslocal/internal/connect"
)

// world is the environment of a behaviour's test: clients of an emulator, and a clock.
type world struct {
	sqs       *sqs.Client
	dynamodb  *dynamodb.Client
	scheduler *scheduler.Client
	sfn       *sfn.Client
	events    *eventbridge.Client
	// cloud is awslocal in process. It is nil for other emulators, which run in real time.
	cloud *awslocal.Cloud
	// remote is set if the clients use connections. If a client closes its connection, the emulator notices only some time
	// later.
	remote bool
	// `late` is the tolerance for delays in real time.
	late time.Duration
	// run is the name prefix of this run. It keeps new queues and tables apart from existing ones.
	run string
	// `named` counts the names that the method `name` has returned.
	named atomic.Int32
}

// inProcess returns a world with a new Cloud.
func inProcess() *world { return inProcessWith(awslocal.Config{}) }

func inProcessWith(config awslocal.Config) *world {
	cloud := awslocal.New(config)
	w := &world{cloud: cloud, run: "t"}
	w.connect("http://aws.local", cloud.HTTPClient())
	return w
}

// connected returns a world with a new Cloud behind an HTTP server.
func connected(t *testing.T) *world {
	t.Helper()
	cloud, listener := awslocal.New(awslocal.Config{}), connect.Listen()
	server := &http.Server{Handler: cloud, ReadHeaderTimeout: time.Minute}
	transport := &http.Transport{DialContext: listener.DialContext}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		must(t, "closing the server", server.Close())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	})
	w := &world{cloud: cloud, remote: true, run: "t"}
	w.connect("http://aws.local", &http.Client{Transport: connect.Whole(transport)})
	return w
}

// at returns a world for the emulator at an endpoint.
func at(t *testing.T, endpoint string) *world {
	t.Helper()
	name := t.Name()
	w := &world{remote: true, late: time.Second, run: fmt.Sprintf("%s-%x", name[strings.LastIndexByte(name, '/')+1:], time.Now().UnixNano()&0xffffffffff)}
	w.connect(endpoint, awshttp.NewBuildableClient())
	return w
}

func (w *world) connect(endpoint string, client aws.HTTPClient) {
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: &endpoint, HTTPClient: client,
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
	w.sqs, w.dynamodb = sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
	w.scheduler, w.sfn = scheduler.NewFromConfig(config), sfn.NewFromConfig(config)
	w.events = eventbridge.NewFromConfig(config)
}

// virtual reports whether the test runs in virtual time. Tests can then check exact times.
func (w *world) virtual() bool { return w.cloud != nil }

// name returns a new name that is unique in the emulator.
func (w *world) name() string { return fmt.Sprintf("%s-%d", w.run, w.named.Add(1)) }

// until sleeps until a time. In real time it sleeps a little longer, to be safe.
func (w *world) until(instant time.Time) {
	if !w.virtual() {
		instant = instant.Add(300 * time.Millisecond)
	}
	time.Sleep(time.Until(instant))
}

// untilJustBefore sleeps until just before a time. In real time, it skips the test if the previous calls were so slow
// that this moment has passed.
func (w *world) untilJustBefore(t *testing.T, instant time.Time) {
	t.Helper()
	before := time.Nanosecond
	if !w.virtual() {
		before = 600 * time.Millisecond
	}
	left := time.Until(instant.Add(-before))
	if left < 0 && !w.virtual() {
		t.Skipf("the calls so far took %v too long to check what happens just before a time", -left)
	}
	time.Sleep(left)
}

// settle waits until the calls of other goroutines are waiting for an answer.
func (w *world) settle() {
	if w.virtual() {
		synctest.Wait()
		return
	}
	time.Sleep(500 * time.Millisecond)
}

// pass waits for the duration d, in which nothing should happen. In real time it waits at most two seconds.
func (w *world) pass(d time.Duration) {
	if !w.virtual() {
		d = min(d, 2*time.Second)
	}
	time.Sleep(d)
	w.settle()
}

// wantAt fails unless the time `got` is the expected time, within the world's tolerance.
func (w *world) wantAt(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	delay := got.Sub(want)
	if delay < -min(w.late, 100*time.Millisecond) || delay > w.late {
		t.Fatalf("%s: %v late, want it at once", what, delay)
	}
}

// want compares the value `got` with the expected value, and fails if they differ.
func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, ignoreUnexported, unordered, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// must fails if err is not nil.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// wantCode fails unless err has one of the AWS error codes. For an SQS error, the SDK returns the code of the query
// protocol if the answer contains it.
func wantCode(t *testing.T, what string, err error, codes ...string) {
	t.Helper()
	if !slices.Contains(codes, errorCode(err)) {
		t.Fatalf("%s: got %v, want an error with code %v", what, err, codes)
	}
}

// wantAs fails unless err is an E. It stores the error in target.
func wantAs[E error](t *testing.T, what string, err error, target *E) {
	t.Helper()
	if !errors.As(err, target) {
		t.Fatalf("%s: got %v, want an error of type %T", what, err, *target)
	}
}

// errorCode returns the AWS error code of err, without the prefix of SQS's query protocol. It returns "" if err has
// none.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.")
	}
	return ""
}
