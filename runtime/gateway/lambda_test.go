package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/gateway"
)

func readEvent(t *testing.T, name string) events.APIGatewayV2HTTPRequest {
	t.Helper()
	text, err := os.ReadFile("testdata/lambda/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var event events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(text, &event); err != nil {
		t.Fatal(err)
	}
	return event
}

// invoke calls the handler as a Lambda function, which must not return an error.
func invoke(t *testing.T, handler http.Handler, event events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	response, err := gateway.Lambda(handler)(t.Context(), event)
	if err != nil {
		t.Fatalf("expected an answer, got %v", err)
	}
	return response
}

func TestLambdaAnswersLikeAServer(t *testing.T) {
	t.Parallel()
	for name, direct := range map[string]struct {
		method, target, body string
		header               http.Header
		status               int
	}{
		"httpapi.json": {
			http.MethodPost, "/instances/signup/50%25/events", `{"type":"RESEND"}`,
			http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"r-1"}}, http.StatusAccepted,
		},
		"httpapi-stage.json": {
			http.MethodGet, "/instances/signup/42?verbose=1&verbose=2", "",
			http.Header{"If-None-Match": {`"6-72f17154c77c45eb"`, `"7-72f17154c77c45eb"`}}, http.StatusNotModified,
		},
		"functionurl.json": {
			http.MethodPost, "/instances/signup/50%25/events", `{"type":"RESEND"}`,
			http.Header{"Content-Type": {"application/json"}}, http.StatusAccepted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, function := newWorld(t, gateway.Config{}), newWorld(t, gateway.Config{})
			server.table.put(t, "42", 7)
			function.table.put(t, "42", 7)

			r := httptest.NewRequest(direct.method, direct.target, strings.NewReader(direct.body))
			r.Header = direct.header
			want := httptest.NewRecorder()
			server.ServeHTTP(want, r)
			got := invoke(t, function, readEvent(t, name))

			if got.StatusCode != direct.status || got.StatusCode != want.Code || got.Body != want.Body.String() || got.IsBase64Encoded {
				t.Errorf("expected %d %s, got %+v", want.Code, want.Body, got)
			}
			for header, values := range want.Header() {
				if got.Headers[header] != strings.Join(values, ",") {
					t.Errorf("%s: expected %q, got %q", header, values, got.Headers[header])
				}
			}
			if g, w := function.describeQueued(0), server.describeQueued(0); g != w {
				t.Errorf("expected the server's %q in the queue, got %q", w, g)
			}
		})
	}
}

// The handler sees the same request in Lambda as in a server.
func TestLambdaRequest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"httpapi.json": `POST /instances/signup/50%25/events from 203.0.113.7:0 to a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com
path /instances/signup/50%/events, query map[], cookies []
body 17 of 17: {"type":"RESEND"}`,
		"httpapi-stage.json": `GET /instances/signup/42?verbose=1&verbose=2 from 203.0.113.7:0 to a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com
path /instances/signup/42, query map[verbose:[1 2]], cookies [session=s theme=dark]
body 0 of 0: `,
		"functionurl.json": `POST /instances/signup/50%25/events from [2001:db8::7]:0 to shjhdrxa6xyfze4amalxzfcodm0hubyw.lambda-url.eu-west-1.on.aws
path /instances/signup/50%/events, query map[], cookies []
body 17 of 17: {"type":"RESEND"}`,
	} {
		response := invoke(t, http.HandlerFunc(echo), readEvent(t, name))
		if response.Body != want {
			t.Errorf("%s: expected\n%s\ngot\n%s", name, want, response.Body)
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(w, "%s %s from %s to %s%s\npath %s, query %v, cookies %v\nbody %d of %d: %s",
		r.Method, r.RequestURI, r.RemoteAddr, r.Host, r.Header.Get("Host"), r.URL.Path, r.URL.Query(), r.Cookies(), len(body), r.ContentLength, body)
}

func TestLambdaPath(t *testing.T) {
	t.Parallel()
	const functionURL = "x.lambda-url.eu-west-1.on.aws"
	for _, test := range []struct{ domain, stage, rawPath, path, escaped string }{
		{"", "$default", "/a b/c", "/a b/c", "/a%20b/c"},
		{"", "$default", "/a%2Fb", "/a%2Fb", "/a%252Fb"},
		{"", "$default", "", "/", "/"},
		{"", "prod", "/prod/a", "/a", "/a"},
		{"", "prod", "/prod", "/", "/"},
		{"", "prod", "/product", "/product", "/product"},
		{"api.example.com", "prod", "/a", "/a", "/a"},
		{functionURL, "$default", "/a%20b/c", "/a b/c", "/a%20b/c"},
		{functionURL, "$default", "/a%2Fb", "/a/b", "/a%2Fb"},
	} {
		var event events.APIGatewayV2HTTPRequest
		event.RawPath, event.RequestContext.Stage, event.RequestContext.DomainName = test.rawPath, test.stage, test.domain
		event.RequestContext.HTTP.Method = http.MethodGet
		var path, escaped, host string
		invoke(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			path, escaped, host = r.URL.Path, r.URL.EscapedPath(), r.Host
		}), event)
		if path != test.path || escaped != test.escaped || host != test.domain {
			t.Errorf("%+v: got %q, escaped %q, at %q", test, path, escaped, host)
		}
	}
}

func TestLambdaResponse(t *testing.T) {
	t.Parallel()
	var get, head events.APIGatewayV2HTTPRequest
	get.RequestContext.HTTP.Method, head.RequestContext.HTTP.Method = http.MethodGet, http.MethodHead
	for name, test := range map[string]struct {
		event   events.APIGatewayV2HTTPRequest
		handler http.HandlerFunc
		want    events.APIGatewayV2HTTPResponse
	}{
		"nothing written": {get, func(http.ResponseWriter, *http.Request) {},
			events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{}}},
		"text": {get, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Late", "1")
			_, _ = io.WriteString(w, "short ")
			_, _ = io.WriteString(w, "and stout")
		}, events.APIGatewayV2HTTPResponse{StatusCode: 418, Headers: map[string]string{"Content-Type": "text/plain"}, Body: "short and stout"}},
		"bytes": {get, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0x00}) },
			events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{}, Body: "/wA=", IsBase64Encoded: true}},
		"lines of headers and cookies": {get, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Vary"] = []string{"Accept", "Origin"}
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		}, events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{"Vary": "Accept,Origin"}, Cookies: []string{"a=1", "b=2"}}},
		"a response to HEAD": {head, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") },
			events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{}}},
	} {
		if got := invoke(t, test.handler, test.event); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: expected %+v, got %+v", name, test.want, got)
		}
	}
}

func TestLambdaEventThatIsNotARequestGetsA400(t *testing.T) {
	t.Parallel()
	var method, path events.APIGatewayV2HTTPRequest
	method.RequestContext.HTTP.Method = "G E T"
	path.RequestContext.HTTP.Method, path.RequestContext.DomainName, path.RawPath = http.MethodGet, "x.lambda-url.eu-west-1.on.aws", "/%zz"
	for name, test := range map[string]struct {
		event events.APIGatewayV2HTTPRequest
		want  string
	}{
		"not HTTP":         {events.APIGatewayV2HTTPRequest{}, "got an event without requestContext.http.method"},
		"no method":        {method, "invalid method"},
		"invalid encoding": {path, "expected an encoded path"},
	} {
		got := invoke(t, http.NotFoundHandler(), test.event)
		if got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Body, test.want) || got.Headers["Content-Type"] != "application/problem+json" {
			t.Errorf("%s: expected 400 with %q, got %+v", name, test.want, got)
		}
	}
}

// If the queue does not answer in time, the API answers 503 before Lambda's deadline.
func TestLambdaReservesTimeToAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed, _ := ctx.Deadline()
	var event events.APIGatewayV2HTTPRequest
	event.RequestContext.HTTP.Method = http.MethodGet
	_, err := gateway.Lambda(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		deadline, ok := r.Context().Deadline()
		if left := killed.Sub(deadline); !ok || left != 500*time.Millisecond {
			t.Errorf("expected half a second left to answer, got %v", left)
		}
	}))(ctx, event)
	if err != nil {
		t.Error(err)
	}
}
