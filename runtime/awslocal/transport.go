package awslocal

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// HTTPClient returns a client whose every request, whatever its host, is served by c in
// process and in the caller's goroutine: no socket, no name resolution. The AWS SDKs take it
// as their HTTP client:
//
//	sqs.Options{
//		Region:       awslocal.Region,
//		BaseEndpoint: aws.String("http://aws.local"),
//		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
//		HTTPClient:   cloud.HTTPClient(),
//	}
func (c *Cloud) HTTPClient() *http.Client {
	return &http.Client{Transport: transport{c}}
}

// transport implements http.RoundTripper by calling the handler.
type transport struct{ cloud *Cloud }

// RoundTrip serves the request. It fails as a network would if the request's context ends
// before there is an answer.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	served := r.Clone(ctx)
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
	t.cloud.ServeHTTP(&answer, served)
	if err := ctx.Err(); err != nil {
		return nil, err
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

// recorder is an http.ResponseWriter that keeps what is written.
type recorder struct {
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
