package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/cmd/settle/command"
)

// faulty is an HTTP client with two hooks, `before` and `after`. They receive the operation and the request body of
// each AWS call. A hook may be nil. If a hook returns an error, the call fails with it.
type faulty struct {
	aws.HTTPClient
	before, after func(operation, body string) error
}

// Do implements aws.HTTPClient.
func (f faulty) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if f.before != nil {
		if err := f.before(operation, string(body)); err != nil {
			return nil, err
		}
	}
	response, err := f.HTTPClient.Do(r)
	if err == nil && f.after != nil {
		if err := f.after(operation, string(body)); err != nil {
			_ = response.Body.Close() // The response is lost.
			return nil, err
		}
	}
	return response, err
}

// faultily returns a process whose AWS calls go through faulty.
func (u user) faultily(before, after func(operation, body string) error) command.Process {
	return command.Process{StdoutTTY: true, HTTP: faulty{u.stack.AWS().HTTPClient, before, after}}
}

// withoutIndex answers queries like a table without an index.
type withoutIndex struct{ aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c withoutIndex) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Query") {
		return c.HTTPClient.Do(r)
	}
	const refusal = `{"__type": "com.amazon.coral.validate#ValidationException", "message": "The table does not have the specified index: by_state"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(refusal)), Request: r}, nil
}
