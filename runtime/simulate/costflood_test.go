package simulate_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/prices"
)

// The gateway logs these bytes for a request that it refuses. A test of runtime/host measures both sizes, and compares
// them with the table in docs/floods.md. Lambda adds lines of lambdaLinesBytes.
const (
	refusedLineBytes    = 145 // the line "request refused"
	refusedMetricsBytes = 190 // the metrics of the invocation
)

// Inputs of docs/floods.md that no test can measure.
const (
	// An HTTP API counts each 512 KB of a body as a request (Amazon API Gateway pricing).
	countedKilobytes = 512
	// largeSeconds is the assumed duration of an invocation with the largest body, at prices.InvocationGigabytes.
	largeSeconds = 0.5
)

// accessLogSample has the values of a refused request in the access log.
var accessLogSample = map[string]string{
	"identity.caller": "-", "error.message": "-", "identity.sourceIp": "203.0.113.177", "responseLatency": "24", "requestId": "UH5vAgUXoAMEJ1w=",
	"routeKey": "POST /webhooks/github", "status": "401", "requestTime": "26/Nov/2026:12:00:00 +0000",
}

// unsignedRequest is a kind of request in a flood. Invokes is false if the request is too large for Lambda.
type unsignedRequest struct {
	name      string
	kilobytes int
	seconds   float64
	invokes   bool
}

var unsignedRequests = []unsignedRequest{
	{"up to 512 KB", countedKilobytes, prices.InvocationSeconds, true},
	{"6 MB, the most that Lambda accepts", 6 * 1024, largeSeconds, true},
	{"10 MB, the most that API Gateway accepts", 10 * 1024, 0, false},
}

// millions returns the dollars for a million requests of this kind: API Gateway, Lambda and logs.
func (r unsignedRequest) millions(accessLogBytes int) (api, lambda, logs float64) {
	api = prices.MillionHTTPRequests * float64((r.kilobytes+countedKilobytes-1)/countedKilobytes)
	bytes := accessLogBytes
	if r.invokes {
		lambda = prices.MillionInvocations + 1e6*r.seconds*prices.InvocationGigabytes*prices.GigabyteSecondARM
		bytes += refusedLineBytes + refusedMetricsBytes + lambdaLinesBytes
	}
	return api, lambda, float64(bytes) * 1e6 / 1e9 * prices.GigabyteLogs
}

// templateValue returns the text in infra/template.yaml that the pattern's group matches.
func templateValue(t *testing.T, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("../../infra/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("expected %s in infra/template.yaml", pattern)
	}
	return string(found[1])
}

// TestAFloodCostsWhatTheDocumentSays computes the cost of unsigned requests at the limit of the open routes.
func TestAFloodCostsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	limit, err := strconv.Atoi(templateValue(t, `POST /webhooks/github: !If \[HasGitHubWebhook, {ThrottlingBurstLimit: \d+, ThrottlingRateLimit: (\d+)}`))
	if err != nil {
		t.Fatal(err)
	}
	if memory := templateValue(t, `(?s)  Gateway:\n    Type: AWS::Lambda::Function\n.*?MemorySize: (\d+)`); memory != fmt.Sprint(1024*prices.InvocationGigabytes) {
		t.Errorf("expected the gateway to have %g MB, got %s", 1024*prices.InvocationGigabytes, memory)
	}
	access := regexp.MustCompile(`\$context\.(\w+(?:\.\w+)?)`).ReplaceAllStringFunc(templateValue(t, `Format: '(.*)'`), func(name string) string {
		value, ok := accessLogSample[strings.TrimPrefix(name, "$context.")]
		if !ok {
			t.Errorf("expected a sample of %s", name)
		}
		return value
	})
	day := float64(limit) * 24 * 60 * 60 / 1e6
	var b strings.Builder
	b.WriteString("| the body of each request | API Gateway | Lambda | logs | a million requests | a day, one open route | a day, both |\n|---|---|---|---|---|---|---|\n")
	for _, r := range unsignedRequests {
		api, lambda, logs := r.millions(len(access))
		million := api + lambda + logs
		fmt.Fprintf(&b, "| %s | $%.2f | $%.2f | $%.2f | **$%.2f** | $%.0f | $%.0f |\n", r.name, api, lambda, logs, million, day*million, 2*day*million)
	}
	logged := fmt.Sprintf("| what is logged of a refused request | bytes | |\n|---|---|---|\n"+
		"| the line \"request refused\" of the gateway | %d | measured |\n"+
		"| the line of its metrics | %d | measured |\n"+
		"| the lines START, END and REPORT | %d | an assumption: Lambda writes them |\n"+
		"| the line of the HTTP API's access log | %d | the template's format with sample values |\n", refusedLineBytes, refusedMetricsBytes, lambdaLinesBytes, len(access))
	t.Logf("\n%s\n%s", b.String(), logged)
	wantInPage(t, "../../docs/floods.md", map[string]string{"flood": b.String(), "flood logs": logged})
}
