package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/settle-run/settle/runtime/host/internal/otlp"
)

// silentCollector does not respond to requests until `answers` or `refuses` is set.
type silentCollector struct {
	asked            int
	answers, refuses bool
}

func (c *silentCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked++
	if c.answers {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
	if c.refuses {
		return nil, errors.New("connection reset by peer")
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestExportsPauseAfterATimeout shows that an unresponsive collector delays one invocation every half minute by two
// seconds, and no others.
func TestExportsPauseAfterATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		collector := &silentCollector{}
		var log strings.Builder
		config := quiet(io.Discard, &log)
		config.Now, config.TracesClient, config.TracesEndpoint = time.Now, &http.Client{Transport: collector}, &url.URL{Scheme: "http", Host: "collector"}
		tele := New(config)
		handler := tele.Handler(lambda.NewHandler(func(ctx context.Context) error {
			_, end := tele.start(ctx, "work", otlp.Internal)
			end(nil)
			return nil
		}))
		for i, step := range []struct {
			after, left, took time.Duration
			asked             int
		}{
			{left: time.Minute, took: exportMax, asked: 1},
			{left: time.Minute, asked: 1},
			{after: exportPause - time.Second, left: time.Minute, asked: 1},
			{after: time.Second, left: exportMargin + 300*time.Millisecond, took: 300 * time.Millisecond, asked: 2},
		} {
			time.Sleep(step.after)
			ctx, cancel := context.WithTimeout(t.Context(), step.left)
			began := time.Now()
			if _, err := handler.Invoke(ctx, []byte("{}")); err != nil {
				t.Error(err)
			}
			cancel()
			if took := time.Since(began); took != step.took {
				t.Errorf("invocation %d took %v, want %v", i, took, step.took)
			}
			if collector.asked != step.asked {
				t.Errorf("after invocation %d the collector got %d requests, want %d", i, collector.asked, step.asked)
			}
		}
		if got := strings.Count(log.String(), `"spans lost: the collector did not respond","lost":2`); got != 1 {
			t.Errorf("want the two lost spans reported once, got %d times in\n%s", got, log.String())
		}
		time.Sleep(exportPause)
		for _, refuses := range []bool{true, false} {
			collector.refuses, collector.answers = refuses, !refuses
			before := collector.asked
			for range 3 {
				if _, err := handler.Invoke(t.Context(), []byte("{}")); err != nil {
					t.Error(err)
				}
			}
			if collector.asked != before+3 {
				t.Errorf("a collector that responds immediately (rejecting: %v) got %d requests for 3 invocations", refuses, collector.asked-before)
			}
		}
	})
}
