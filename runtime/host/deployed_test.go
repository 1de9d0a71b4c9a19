package host_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// stackName is the stack's name. All names in the template derive from it.
const stackName = "acme-settle"

// secrets are the values of the template's secrets.
var secrets = map[string]string{
	"SignupCodeKey": "canary-code-key-0123456789abcdef", "EnrichCallbackKey": "canary-callback-key-0123456789abcdef",
	"GitHubWebhookSecret": "canary-webhook-secret",
}

// deployed runs what infra/template.yaml deploys: the executables with a local AWS. Each has only the environment of
// the template, the variables that Lambda sets, and the address of the local AWS. Each may make only the calls that its
// role allows.
type deployed struct {
	t *testing.T
	// ctx is canceled when the test ends or something fails.
	ctx       context.Context
	fail      context.CancelCauseFunc
	cloud     *awslocal.Cloud
	config    aws.Config
	stack     infra.Stack
	roles     *guard.Roles
	functions map[string]infra.Function
	logs      map[string]*written
	store     *dynamostore.Store
	states    *sfn.Client
	// planted lists the strings that must not appear in any log: payloads, secrets, tokens and keys. `planting` guards
	// it.
	planting sync.Mutex
	planted  []string
	// api is the HTTP API in front of the gateway.
	api     *httptest.Server
	gateway awslocal.Invoker
	// objects is the function that EventBridge invokes for uploads.
	objects awslocal.Invoker
}

// written collects the output of the processes of one function.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *written) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(line)
}

func (o *written) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// deploy starts the stack with the executables.
func deploy(t *testing.T, executables map[string]string) *deployed {
	t.Helper()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // End the scenes early enough to print the logs.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-10*time.Second), errors.New("the deadline of go test is close"))
		t.Cleanup(cancel)
	}
	d := &deployed{t: t, functions: map[string]infra.Function{}, logs: map[string]*written{}, planted: []string{"canary"}}
	d.ctx, d.fail = context.WithCancelCause(ctx)
	d.cloud = awslocal.New(awslocal.Config{StatusChanges: stackName + "-executions"})
	d.api = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.api.Close)
	d.config = aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: d.cloud.HTTPClient(), Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	d.stack = infra.Stack{
		Name: stackName, Account: awslocal.Account, Region: awslocal.Region, Secrets: secrets,
		Values: map[string]string{"Table": stackName + "-table", "HttpApi.ApiEndpoint": d.api.URL},
	}
	var err error
	if d.roles, err = guard.NewRoles(d.stack); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.roles.Handler(d.cloud))
	t.Cleanup(server.Close)
	d.stack.QueueURLs = server.URL
	d.store, d.states = dynamostore.NewIndexed(dynamodb.NewFromConfig(d.config), stackName+"-table"), sfn.NewFromConfig(d.config)
	d.createResources()
	bootstraps := d.startFunctions(server.URL, executables)
	d.gateway, d.objects = bootstraps["gateway"].Start(), bootstraps["objects"].Start()
	if err := d.cloud.Register("tokentask", awslocal.Function{Timeout: d.timeout("tokentask"), Start: bootstraps["tokentask"].Start}); err != nil {
		t.Fatal(err)
	}
	var polling sync.WaitGroup
	for queue, function := range map[string]string{".fifo": "consumer", "-delay": "delay", "-executions": "executions"} {
		polling.Go(func() {
			err := d.cloud.Poll(d.ctx, awslocal.EventSource{
				Queue: stackName + queue, ReportBatchItemFailures: true, Timeout: d.timeout(function),
				// The demonstration's services count their calls per process.
				Concurrency: 1,
				OnFailure:   func(err error) { d.fail(fmt.Errorf("%s: %w\n%s", function, err, d.logs[function])) },
			}, bootstraps[function].Start)
			if err != nil {
				d.fail(err)
			}
		})
	}
	t.Cleanup(polling.Wait)
	t.Cleanup(func() { d.fail(errors.New("the test is over")) })
	return d
}

// timeout returns six times the function's timeout in the template, because the queues hide a batch for that long. Even
// a busy computer stays below that.
func (d *deployed) timeout(function string) time.Duration {
	return 6 * time.Duration(d.functions[function].TimeoutSeconds) * time.Second
}

// plant adds a string that no log may contain.
func (d *deployed) plant(secret string) {
	d.planting.Lock()
	defer d.planting.Unlock()
	d.planted = append(d.planted, secret)
}

// createResources creates the queues, the table and the schedule group of the template.
func (d *deployed) createResources() {
	d.t.Helper()
	d.createQueues()
	if err := dynamostore.CreateIndexedTable(d.ctx, dynamodb.NewFromConfig(d.config), stackName+"-table"); err != nil {
		d.t.Fatal(err)
	}
	if _, err := scheduler.NewFromConfig(d.config).CreateScheduleGroup(d.ctx, &scheduler.CreateScheduleGroupInput{Name: aws.String(stackName)}); err != nil {
		d.t.Fatal(err)
	}
}

// startFunctions returns the functions of the template, each with its environment.
func (d *deployed) startFunctions(endpoint string, executables map[string]string) map[string]*awslocal.Bootstrap {
	d.t.Helper()
	declared, err := infra.Functions()
	if err != nil {
		d.t.Fatal(err)
	}
	bootstraps := map[string]*awslocal.Bootstrap{}
	for name, function := range declared {
		if d.functions[name], err = d.stack.Resolve(function); err != nil {
			d.t.Fatal(err)
		}
		// The access key ID identifies the caller, and so its role. The debug log shows skipped messages.
		environment := []string{"AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=" + name, "SETTLE_LOG_LEVEL=debug"}
		for variable, value := range d.functions[name].Environment {
			environment = append(environment, variable+"="+value)
		}
		d.logs[name] = &written{}
		bootstraps[name], err = awslocal.NewBootstrap(awslocal.BootstrapConfig{
			Path: executables[name], Env: environment, FunctionName: stackName + "-" + name, MemoryMB: function.MemoryMiB,
			Timeout: d.timeout(name), Logs: d.logs[name],
		})
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { _ = bootstraps[name].Close() })
	}
	return bootstraps
}

// buildDeployed builds the template's functions for this computer in one go build, with the flags of `make functions`.
func buildDeployed(t *testing.T) map[string]string {
	t.Helper()
	declared, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	args := append(append([]string{"build"}, buildFlags(t)...), "-o", folder+string(filepath.Separator))
	executables := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		args = append(args, "../../functions/"+name)
		executables[name] = filepath.Join(folder, name)
	}
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the functions: %v\n%s", err, out)
	}
	return executables
}

// serve acts as the HTTP API: it invokes the gateway for each request, in payload format 2.0.
func (d *deployed) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the request", http.StatusBadGateway)
		return
	}
	event := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery, Headers: map[string]string{"host": r.Host}, Body: string(body),
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			Stage: "$default", DomainName: r.Host, HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: r.Method, Path: r.URL.Path, SourceIP: "192.0.2.1"},
		},
	}
	for name, values := range r.Header {
		event.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	payload, err := json.Marshal(event)
	if err != nil {
		http.Error(w, "encoding the request", http.StatusBadGateway)
		return
	}
	answer, err := d.gateway.Invoke(d.ctx, payload)
	var response events.APIGatewayV2HTTPResponse
	if err = errors.Join(err, json.Unmarshal(answer, &response)); err != nil {
		d.fail(fmt.Errorf("gateway: %w\n%s", err, d.logs["gateway"]))
		http.Error(w, "invoking the gateway", http.StatusBadGateway)
		return
	}
	for name, value := range response.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.WriteString(w, response.Body) // Ignore a client that has disconnected.
}

// request calls the API and returns the response body. The response must have the status.
func (d *deployed) request(method, path string, header map[string]string, body []byte, status int) ([]byte, error) {
	request, err := http.NewRequestWithContext(d.ctx, method, d.api.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := d.api.Client().Do(request)
	if err != nil {
		return nil, errors.Join(err, context.Cause(d.ctx))
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		return nil, fmt.Errorf("%s %s: expected the status %d, got %d %s %w", method, path, status, response.StatusCode, answer, errors.Join(err, context.Cause(d.ctx)))
	}
	return answer, nil
}

// event sends an event to an instance.
func (d *deployed) event(instance, body string) error {
	_, err := d.request(http.MethodPost, "/instances/"+instance+"/events", nil, []byte(body), http.StatusAccepted)
	return err
}

// webhook delivers a webhook as GitHub does.
func (d *deployed) webhook(action string, job map[string]any) error {
	job["status"] = action
	body, err := json.Marshal(map[string]any{
		"action": action, "workflow_job": job, "repository": map[string]any{"full_name": "octo-org/web", "owner": map[string]any{"login": "octo-org"}},
	})
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(secrets["GitHubWebhookSecret"]))
	mac.Write(body)
	_, err = d.request(http.MethodPost, "/webhooks/github", map[string]string{
		"X-GitHub-Event": "workflow_job", "X-GitHub-Delivery": fmt.Sprintf("%v-%s", job["id"], action), "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	}, body, http.StatusAccepted)
	return err
}

// until waits until the stored record satisfies `reached`.
func (d *deployed) until(instance, what string, reached func(instances.Record) bool) (instances.Record, error) {
	id, err := instances.ParseID(instance)
	if err != nil {
		return instances.Record{}, err
	}
	for {
		record, err := d.store.Load(d.ctx, id)
		if err == nil && reached(record) {
			return record, nil
		}
		select {
		case <-d.ctx.Done():
			return record, fmt.Errorf("waited for %s to be %s, got state %v: %w", instance, what, record.State, context.Cause(d.ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// settles waits until the instance is in exactly these states and its outbox is empty.
func (d *deployed) settles(instance string, states ...string) (instances.Record, error) {
	return d.until(instance, "in "+strings.Join(states, ", "), func(r instances.Record) bool { return slices.Equal(r.State, states) && !r.Owes() })
}
