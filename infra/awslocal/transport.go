package awslocal

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// HTTPClient returns a client that passes all requests to c in process, whatever their host. c serves them in the
// caller's goroutine. The client uses no sockets and no name resolution. The AWS SDKs accept it as their HTTP client:
//
//	sqs.Options{
//		Region:       awslocal.Region,
//		BaseEndpoint: aws.String("http://aws.local"),
//		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
//		HTTPClient:   cloud.HTTPClient(),
//	}
func (c *Cloud) HTTPClient() *http.Client { return c.Client("") }

// Client is like HTTPClient, but gives the client a name. Config.Fault receives the name in Call.Client, so that a
// fault can target the calls of one consumer.
func (c *Cloud) Client(name string) *http.Client {
	return &http.Client{Transport: transport{c, name}}
}

// transport implements http.RoundTripper by calling the handler.
type transport struct {
	cloud *Cloud
	name  string
}

// RoundTrip serves the request. Like a network request, it fails if the context ends before there is an answer.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	served := r.Clone(withClient(ctx, t.name))
	if served.Body == nil {
		served.Body = http.NoBody
	}
	defer served.Body.Close()
	if served.Host == "" {
		served.Host = r.URL.Host
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer := recorder{header: make(http.Header)}
	broken := serveUnlessAborted(t.cloud, &answer, served)
	if err := ctx.Err(); err != nil && !answer.thawed {
		return nil, err
	}
	if broken {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		Status:        strconv.Itoa(answer.status) + " " + http.StatusText(answer.status),
		StatusCode:    answer.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        answer.header,
		Body:          io.NopCloser(&answer.body),
		ContentLength: int64(answer.body.Len()),
		Request:       r,
	}, nil
}

// serveUnlessAborted serves a request, and reports whether the handler aborted the connection by panicking with
// http.ErrAbortHandler.
func serveUnlessAborted(handler http.Handler, w http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			aborted = true
		default:
			panic(p)
		}
	}()
	handler.ServeHTTP(w, r)
	return false
}

// recorder is an http.ResponseWriter that records the response.
type recorder struct {
	// thawed is set if the client was frozen during the call. The client then receives the answer even if its context
	// has ended.
	thawed bool
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
