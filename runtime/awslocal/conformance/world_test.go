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
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/awslocal/internal/connect"
)

// world is what a behaviour is tested in: clients of an emulator, and a clock.
type world struct {
	sqs       *sqs.Client
	dynamodb  *dynamodb.Client
	scheduler *scheduler.Client
	sfn       *sfn.Client
	// cloud is the emulator if it is awslocal in process; otherwise it is nil, and time is
	// real.
	cloud *awslocal.Cloud
	// remote is set where connections lead to the emulator: it notices later than its client that one is closed.
	remote bool
	// late is what real time allows for a thing that is to happen at an instant.
	late time.Duration
	// run sets this run's queues, tables and so on apart from what the emulator has already.
	run string
	// named counts them.
	named atomic.Int32
}

// inProcess returns a world with a Cloud of its own.
func inProcess() *world {
	cloud := awslocal.New(awslocal.Config{})
	w := &world{cloud: cloud, run: "t"}
	w.connect("http://aws.local", cloud.HTTPClient())
	return w
}

// connected returns a world with a Cloud of its own behind an HTTP server.
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

// at returns a world of the emulator at an endpoint.
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
}

// virtual says whether time is: then what must happen at an instant can be asked for at that
// very instant.
func (w *world) virtual() bool { return w.cloud != nil }

// name returns a name that nothing else in the emulator has.
func (w *world) name() string { return fmt.Sprintf("%s-%d", w.run, w.named.Add(1)) }

// until sleeps until an instant: in real time until it is surely over.
func (w *world) until(instant time.Time) {
	if !w.virtual() {
		instant = instant.Add(300 * time.Millisecond)
	}
	time.Sleep(time.Until(instant))
}

// untilJustBefore sleeps until just before an instant. In real time it skips the test if
// that is over: the calls so far were too slow to tell.
func (w *world) untilJustBefore(t *testing.T, instant time.Time) {
	t.Helper()
	before := time.Nanosecond
	if !w.virtual() {
		before = 600 * time.Millisecond
	}
	left := time.Until(instant.Add(-before))
	if left < 0 && !w.virtual() {
		t.Skipf("%v too slow to tell", -left)
	}
	time.Sleep(left)
}

// settle waits until the calls that other goroutines have begun wait for an answer.
func (w *world) settle() {
	if w.virtual() {
		synctest.Wait()
		return
	}
	time.Sleep(500 * time.Millisecond)
}

// pass lets a time pass in which nothing should happen. In real time two seconds must do.
func (w *world) pass(d time.Duration) {
	if !w.virtual() {
		d = min(d, 2*time.Second)
	}
	time.Sleep(d)
	w.settle()
}

// wantAt fails unless got is the instant wanted.
func (w *world) wantAt(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	delay := got.Sub(want)
	if delay < -min(w.late, 100*time.Millisecond) || delay > w.late {
		t.Fatalf("%s: %v late, want it at once", what, delay)
	}
}

// want fails unless got equals want.
func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, ignoreUnexported, unordered, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// must fails if err is one.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// wantCode fails unless err has one of the AWS error codes. SQS has each code in two forms;
// only that of the SDK's types is asked for.
func wantCode(t *testing.T, what string, err error, codes ...string) {
	t.Helper()
	if !slices.Contains(codes, errorCode(err)) {
		t.Fatalf("%s: got %v, want an error with code %v", what, err, codes)
	}
}

// wantAs fails unless err is an E, which it puts into target.
func wantAs[E error](t *testing.T, what string, err error, target *E) {
	t.Helper()
	if !errors.As(err, target) {
		t.Fatalf("%s: got %v, want an error of type %T", what, err, *target)
	}
}

// errorCode returns the AWS error code of err, empty if it has none.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.")
	}
	return ""
}
