package awslocal_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// wantMessage fails unless err's message contains text.
func wantMessage(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %v, want an error that contains %q", err, text)
	}
}

// post sends a POST request to the handler.
func post(cloud *awslocal.Cloud, headers map[string]string, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:4566/", strings.NewReader(body))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	cloud.ServeHTTP(w, r)
	return w
}

func target(operation string) map[string]string {
	return map[string]string{"X-Amz-Target": operation, "Content-Type": "application/x-amz-json-1.0"}
}

func TestServe_unsupported_features_are_rejected_by_name(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	for _, test := range []struct {
		headers          map[string]string
		body, code, name string
	}{
		{target("AmazonSQS.StartMessageMoveTask"), `{}`, "UnsupportedOperation", "StartMessageMoveTask"},
		{target("AmazonSQS.CreateQueue"), `{"QueueName":"q","Colour":"red"}`, "InvalidParameterValue", "Colour"},
		{target("AmazonSQS.CreateQueue"), `{"QueueName":7}`, "SerializationException", "QueueName"},
		{target("AmazonSQS.CreateQueue"), `{"QueueName":"q"}{}`, "SerializationException", "unexpected data"},
		{target("Kinesis_20131202.PutRecord"), `{}`, "UnknownOperationException", "Kinesis_20131202"},
		{target("DynamoDB_20120810.CreateGlobalTable"), `{}`, "UnknownOperationException", "CreateGlobalTable"},
		{map[string]string{}, ``, "UnknownOperationException", "X-Amz-Target"},
	} {
		response := post(cloud, test.headers, test.body)
		body := response.Body.String()
		if response.Code != http.StatusBadRequest || !strings.Contains(body, "#"+test.code+`"`) ||
			!strings.Contains(body, test.name) {
			t.Errorf("%v %s: got %d %s, want 400 %s naming %s", test.headers, test.body,
				response.Code, body, test.code, test.name)
		}
	}
}

func TestServe_headers(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	response := post(cloud, target("AmazonSQS.GetQueueUrl"), `{"QueueName":"absent"}`)
	for name, want := range map[string]string{
		"Content-Type":       "application/x-amz-json-1.0",
		"X-Amzn-Requestid":   "00000000-0000-4000-8000-000000000001",
		"X-Amzn-Query-Error": "AWS.SimpleQueueService.NonExistentQueue;Sender",
	} {
		if got := response.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if body := response.Body.String(); !strings.Contains(body, `"__type":"com.amazonaws.sqs#QueueDoesNotExist"`) {
		t.Errorf("body is %s", body)
	}

	response = post(cloud, target("DynamoDB_20120810.ListTables"), `{}`)
	if got, want := response.Header().Get("X-Amz-Crc32"), fmt.Sprint(crc32.ChecksumIEEE(response.Body.Bytes())); got != want {
		t.Errorf("X-Amz-Crc32 is %q, want %q", got, want)
	}
}

// A web page of any origin can make a browser send a GET, so GET must have no effect.
func TestServe_accepts_only_POST(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]string{
		target("AmazonSQS.ListQueues"), {"Content-Type": "application/x-www-form-urlencoded"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/?Action=ListQueues", strings.NewReader("Action=ListQueues"))
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		awslocal.New(awslocal.Config{}).ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "expected a POST") {
			t.Errorf("%v: got %d %s, want 400: expected a POST", headers, w.Code, w.Body)
		}
	}
}

func TestServe_request_size_is_limited(t *testing.T) {
	t.Parallel()
	response := post(awslocal.New(awslocal.Config{}), target("AmazonSQS.SendMessage"),
		strings.Repeat(" ", awslocal.RequestBytesMax+1))
	if response.Code != http.StatusRequestEntityTooLarge || !strings.Contains(response.Body.String(), "RequestEntityTooLarge") {
		t.Fatalf("got %d %s", response.Code, response.Body)
	}
}

// The SDK can use a loopback server over a socket.
func TestListen(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	server, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := sqs.New(sqs.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String(server.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""), RetryMaxAttempts: 1,
	})
	created, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{
		QueueName: aws.String("queue.fifo"), Attributes: map[string]string{"FifoQueue": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := server.URL() + "/000000000000/queue.fifo"; *created.QueueUrl != want {
		t.Errorf("QueueUrl is %s, want %s", *created.QueueUrl, want)
	}
	q := queue{t: t, cloud: cloud, client: client, url: *created.QueueUrl}
	q.sendAll("a1")
	wantBodies(t, q.receive(), "a1")

	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestListen_accepts_only_loopback_addresses(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1"} {
		if server, err := cloud.Listen(addr); err == nil {
			_ = server.Close()
			t.Errorf("listens on %s, want loopback addresses only", addr)
		}
	}
}

func TestListen_rejects_web_pages_of_other_origins(t *testing.T) {
	t.Parallel()
	server, err := awslocal.New(awslocal.Config{}).Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL(), strings.NewReader("Action=ListQueues"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://example.com")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusForbidden {
		t.Fatalf("got %d %s, want 403", response.StatusCode, body)
	}
}

// A web page can bind its own name to 127.0.0.1. The browser then sends its requests here, with that name as the host.
func TestListen_rejects_hosts_that_are_not_allowed(t *testing.T) {
	t.Parallel()
	server, err := awslocal.New(awslocal.Config{AllowHosts: []string{"host.docker.internal"}}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for host, want := range map[string]int{
		"localhost:1": http.StatusOK, "LocalHost": http.StatusOK, "127.0.0.1:1": http.StatusOK, "127.0.0.2": http.StatusOK, "[::1]:1": http.StatusOK, "[::1]": http.StatusOK,
		"host.docker.internal:1": http.StatusOK, "Host.Docker.Internal": http.StatusOK,
		"evil.example:1": http.StatusForbidden, "localhost.evil.example": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
		"0.0.0.0:1": http.StatusForbidden, "192.0.2.1": http.StatusForbidden, "x.host.docker.internal": http.StatusForbidden,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		for name, value := range target("DynamoDB_20120810.ListTables") {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != want || strings.Contains(string(body), "--allow-host") != (want != http.StatusOK) {
			t.Errorf("%s: got %d %s, want %d, and with an error the flag --allow-host", host, response.StatusCode, body, want)
		}
	}
}

// The rejection has the form of an AWS error, so that an SDK in a container shows the reason.
func TestListen_rejects_hosts_in_the_form_of_AWS(t *testing.T) {
	t.Parallel()
	server, err := awslocal.New(awslocal.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL(), "http://"), ":")
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	client := sqs.New(sqs.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://host.docker.internal:" + port), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: dial}},
	})
	_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	wantMessage(t, err, `AccessDeniedException: expected localhost or a loopback address as the host of the request, got "host.docker.internal:`+port+
		`": if you trust this name, run settle dev with --allow-host host.docker.internal, or add it to AllowHosts of awslocal.Config`)
}
