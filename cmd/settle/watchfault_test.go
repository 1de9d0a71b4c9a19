package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/cmd/settle/command"
)

// outage returns a process on a terminal. While `on` is true, its AWS calls fail.
func (u user) outage() (process command.Process, on *atomic.Bool) {
	on = &atomic.Bool{}
	return u.faultily(func(string, string) error {
		if on.Load() {
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return nil
	}, nil), on
}

// TestWatchSurvivesAnOutage makes AWS fail for minutes. After the outage, watch must print all missed transitions,
// without duplicates.
func TestWatchSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	for _, watched := range [][]string{{"work/1"}, {"--machine", "work"}} {
		withWork(t, &work{}, func(u user) {
			u.must("send", "--local", "work/1", "START", "--wait", "rested")
			time.Sleep(time.Minute)
			process, outage := u.outage()
			got := u.watching(process, func() {
				u.must("send", "--local", "work/1", "COUNT", "what=before")
				time.Sleep(5 * time.Second)
				outage.Store(true)
				time.Sleep(10 * time.Second)
				u.must("send", "--local", "work/1", "COUNT", "what=during")
				time.Sleep(3 * time.Minute)
				outage.Store(false)
				time.Sleep(time.Minute)
				u.must("send", "--local", "work/1", "COUNT", "what=after")
				time.Sleep(5 * time.Second)
				outage.Store(true)
				time.Sleep(30 * time.Second)
			}, watched...)
			if got.code != command.ExitDone || strings.Count(got.out, "COUNT") != 3 {
				u.t.Errorf("%v: expected exit code 0 and three transitions, got %d and\n%s", watched, got.code, got.out)
			}
			var waits []string
			for line := range strings.Lines(got.err) {
				if _, wait, ok := strings.Cut(line, "; trying again in "); ok && strings.HasPrefix(line, "settle: ") {
					waits = append(waits, strings.TrimSpace(wait))
				} else if line == "AWS answers again.\n" {
					waits = append(waits, "answers")
				}
			}
			joined := strings.Join(waits, " ")
			if !strings.HasPrefix(joined, "1s 2s 4s 8s 16s 30s 30s ") || strings.Count(joined, "answers 1s 2s") != 1 || len(waits) > 20 {
				u.t.Errorf("%v: expected each failure with a backoff that grows to 30s and restarts, got %s\n%s", watched, joined, got.err)
			}
		})
	}
}

// denying denies reads of the table as AWS does, while `on` is true.
type denying struct {
	aws.HTTPClient
	on *atomic.Bool
}

// Do implements aws.HTTPClient.
func (c denying) Do(r *http.Request) (*http.Response, error) {
	if !c.on.Load() {
		return c.HTTPClient.Do(r)
	}
	const refusal = `{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "User: arn:aws:iam::0:user/ada is not authorized"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(refusal)), Request: r}, nil
}

// TestWatchEndsOnAPermanentError covers a watch whose first read fails, and a watch that loses its permission.
func TestWatchEndsOnAPermanentError(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		process, outage := u.outage()
		outage.Store(true)
		if got := u.runUntil(u.t.Context(), process, "watch", "--local", "work/1"); got.code != command.ExitFailed || !strings.Contains(got.err, "start it with settle dev") {
			u.t.Errorf("expected exit code 1 and advice, got %+v", got)
		}
		process, _ = u.outage()
		denied := denying{process.HTTP, &atomic.Bool{}}
		process.HTTP = denied
		ctx, stop := context.WithCancel(u.t.Context())
		defer stop()
		ended := make(chan answer, 1)
		go func() { ended <- u.runUntil(ctx, process, "watch", "--local", "--machine", "work") }()
		time.Sleep(3 * time.Second)
		denied.on.Store(true)
		time.Sleep(10 * time.Second)
		select {
		case got := <-ended:
			if got.code != command.ExitFailed || !strings.Contains(got.err, "not authorized") || strings.Contains(got.err, "; trying again in ") {
				u.t.Errorf("expected exit code 1 and the refusal, got %+v", got)
			}
		default:
			u.t.Error("expected the watch to end")
		}
	})
}
