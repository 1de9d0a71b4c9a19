package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// deadlineMargin is the time before Lambda's deadline that is reserved for the answer. So a request that takes too long
// gets a 503 from the API instead of a 502 from API Gateway.
const deadlineMargin = 500 * time.Millisecond

// Lambda returns a Lambda handler for API Gateway's HTTP APIs (payload format 2.0) and for function URLs, whose events
// have the same form:
// https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
//
// The Lambda handler never returns an error. It answers 400 to an event that is not an HTTP request. It decodes a
// Base64 body while `handler` reads the body.
func Lambda(handler http.Handler) func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	return func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
			defer cancel()
		}
		w := &recorder{header: http.Header{}}
		r, err := lambdaRequest(ctx, event)
		if err != nil {
			problemOf(err).write(w)
			return w.event(http.MethodGet), nil
		}
		handler.ServeHTTP(w, r)
		return w.event(r.Method), nil
	}
}

// lambdaRequest converts the event to a server request.
func lambdaRequest(ctx context.Context, event events.APIGatewayV2HTTPRequest) (*http.Request, error) {
	target, err := lambdaURL(event)
	if err != nil {
		return nil, err
	}
	method := event.RequestContext.HTTP.Method
	if method == "" {
		return nil, fmt.Errorf("%w: expected an HTTP request in payload format 2.0, got an event without requestContext.http.method", errBody)
	}
	var body io.Reader = strings.NewReader(event.Body)
	if event.IsBase64Encoded {
		body = encodedBody{base64.NewDecoder(base64.StdEncoding, body)}
	}
	r, err := http.NewRequestWithContext(ctx, method, "/", body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	if event.IsBase64Encoded {
		r.ContentLength = decodedBytes(event.Body)
	}
	r.URL, r.RequestURI = target, target.RequestURI()
	for _, name := range slices.Sorted(maps.Keys(event.Headers)) {
		r.Header.Set(name, event.Headers[name])
	}
	if len(event.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(event.Cookies, "; "))
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	if r.Host == "" {
		r.Host = event.RequestContext.DomainName
	}
	r.RemoteAddr = net.JoinHostPort(event.RequestContext.HTTP.SourceIP, "0")
	return r, nil
}

// encodedBody decodes a Base64 body while the handler reads it. So if the handler refuses a request because of its
// address or length, the body is never decoded.
type encodedBody struct{ decoder io.Reader }

func (b encodedBody) Read(p []byte) (int, error) {
	n, err := b.decoder.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("expected Base64: %w", err)
	}
	return n, err
}

// decodedBytes returns the decoded length of a Base64 body without decoding it.
func decodedBytes(body string) int64 {
	padding := len(body) - len(strings.TrimRight(body, "="))
	return int64(max(0, base64.StdEncoding.DecodedLen(len(body))-padding))
}

// lambdaURL returns the request's URL as a server would see it. For every stage but $default, an HTTP API adds the
// stage name to the path, and lambdaURL removes it. rawPath is encoded for function URLs and decoded for HTTP APIs.
func lambdaURL(event events.APIGatewayV2HTTPRequest) (*url.URL, error) {
	path := event.RawPath
	if stage := event.RequestContext.Stage; stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			path = rest
		}
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	target := &url.URL{Path: path, RawQuery: event.RawQueryString}
	if strings.Contains(event.RequestContext.DomainName, ".lambda-url.") {
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return nil, fmt.Errorf("%w: expected an encoded path: %w", errBody, err)
		}
		target.Path, target.RawPath = decoded, path
	}
	return target, nil
}

// recorder is a ResponseWriter that records the response.
type recorder struct {
	header http.Header
	// sent holds the headers at the time the status was written.
	sent   http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(body []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(body)
}

// event returns the response in payload format 2.0. The lines of a header are joined with commas, cookies are separate,
// and binary bodies are in Base64.
func (w *recorder) event(method string) events.APIGatewayV2HTTPResponse {
	w.WriteHeader(http.StatusOK)
	response := events.APIGatewayV2HTTPResponse{StatusCode: w.status, Headers: map[string]string{}, Cookies: w.sent.Values("Set-Cookie")}
	for name, values := range w.sent {
		if name != "Set-Cookie" {
			response.Headers[name] = strings.Join(values, ",")
		}
	}
	if method == http.MethodHead {
		return response
	}
	response.Body = w.body.String()
	if !utf8.ValidString(response.Body) {
		response.Body, response.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), true
	}
	return response
}
