package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
)

// xray is Lambda's trace header.
const xray = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"

// TestFileNamesAreLoggedOnlyWithPayloads invokes the function for a known and an unknown file. It checks the log, the
// metrics and the spans, which must belong to the trace of the invocation.
func TestFileNamesAreLoggedOnlyWithPayloads(t *testing.T) {
	t.Parallel()
	for _, payloads := range []string{"off", "on"} {
		t.Run("payloads "+payloads, func(t *testing.T) {
			t.Parallel()
			logs, metrics, spans := observed(t, payloads)
			for where, text := range map[string]string{"the metrics": metrics, "the spans": spans, "the log": logs} {
				if shown := strings.Contains(text, "canary"); shown != (payloads == "on" && where == "the log") {
					t.Errorf("payloads are %s, but %s shows them: %v\n%s", payloads, where, shown, text)
				}
			}
			const trace = `"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"`
			for _, want := range []string{`"msg":"event queued","instance":"upload/2026_11","type":"sales_uploaded","message_id":"`, `"msg":"event parked","instance":"upload/unnamed"`, trace} {
				if !strings.Contains(logs, want) {
					t.Errorf("got the log\n%swant it to contain %s", logs, want)
				}
			}
			if want := `"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"`; !strings.Contains(spans, `"name":"send sales_uploaded"`) || !strings.Contains(spans, want) {
				t.Errorf("got the spans\n%swant one for the event, with %s", spans, want)
			}
			sum := map[string]float64{}
			for line := range strings.Lines(metrics) {
				var values map[string]any
				if err := json.Unmarshal([]byte(line), &values); err != nil {
					t.Error(err)
				}
				for name, value := range values {
					number, _ := value.(float64)
					sum[name] += number
				}
			}
			if sum["Parked"] != 1 || sum["AWSCalls"] != 2 {
				t.Errorf("got %v, want one event parked in two AWS calls", sum)
			}
		})
	}
}

// observed returns the log, metrics and spans of two invocations.
func observed(t *testing.T, payloads string) (logs, metrics, spans string) {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	server, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	var taken strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&taken, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(collector.Close)
	client := sqs.NewFromConfig(aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String(server.URL()), HTTPClient: cloud.HTTPClient(), Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	variables := map[string]string{
		host.TracesEndpoint: collector.URL, host.LogPayloads: payloads, host.LogLevel: "debug",
	}
	for variable, name := range map[string]string{host.QueueURL: "events.fifo", host.DeadLetterQueueURL: "dead.fifo"} {
		if _, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"FifoQueue": "true"}}); err != nil {
			t.Fatal(err)
		}
		variables[variable] = fmt.Sprintf("%s/%s/%s", server.URL(), awslocal.Account, name)
	}
	var logged, measured strings.Builder
	handler, _, err := host.Start(host.Function{Requires: []string{host.QueueURL, host.DeadLetterQueueURL}, Handler: newHandler},
		func(name string) (string, bool) { value, ok := variables[name]; return value, ok }, hosttest.AWS(server.URL()), &measured, &logged)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), "x-amzn-trace-id", xray) //nolint:revive,staticcheck // The key of aws-lambda-go's.
	for _, name := range []string{"canary/sales_2026_11.csv", "canary-november.csv"} {
		created := strings.ReplaceAll(strings.ReplaceAll(objectCreated, "2026/sales_2026_11.csv", name), "sales-uploads", "canary-uploads")
		if _, err := handler.Invoke(ctx, json.RawMessage(created)); err != nil {
			t.Fatal(err)
		}
	}
	return logged.String(), measured.String(), taken.String()
}
