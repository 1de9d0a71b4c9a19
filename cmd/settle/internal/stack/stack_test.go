package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

func hosted(string) []durable.Machine {
	return machines.All(demo.Services(slog.New(slog.DiscardHandler)), machines.Settings{Job: job.Config{PickUpTimeout: 20 * time.Minute, LaunchesMax: 2}})
}

func start(t *testing.T, config Config) *Stack {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	if config.Role == nil {
		config = byRoles(t, config)
	}
	s, err := Start(t.Context(), hosted, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *Stack) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing the stack: %v", err)
	}
}

func send(t *testing.T, s *Stack, group, deduplicationID, body string) {
	t.Helper()
	_, err := sqs.NewFromConfig(s.AWS()).SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String(Queue), MessageGroupId: &group, MessageDeduplicationId: &deduplicationID, MessageBody: &body,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTimersReachTheInstanceThroughTheDelayQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		send(t, s, "job/run-1-job-2", "1", `{"type": "queued", "run_id": 1, "job_id": 2, "labels": ["self-hosted"]}`)
		// Each of two runners gets 20 minutes to pick up the job. A 20-minute timer passes through the delay queue twice.
		time.Sleep(40*time.Minute - time.Second)
		synctest.Wait()
		if got := stateOf(t, s, "run-1-job-2"); got != "queued" {
			t.Errorf("expected the job to be queued until it times out, got %q", got)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := stateOf(t, s, "run-1-job-2"); got != "not_picked_up" {
			t.Errorf("expected not_picked_up after 40 minutes, got %q", got)
		}
	})
}

func stateOf(t *testing.T, s *Stack, id string) string {
	t.Helper()
	record, err := s.Load(t.Context(), instances.ID{Machine: "job", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(record.State, ", ")
}

func TestInvalidEventIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		send(t, s, "nope/1", "1", `{"type": "queued"}`)
		synctest.Wait()
		parked, err := sqs.NewFromConfig(s.AWS()).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: aws.String(DeadLetterQueue), MessageAttributeNames: []string{"All"},
		})
		if err != nil || len(parked.Messages) != 1 {
			t.Fatalf("expected one parked event, got %v and %v", parked, err)
		}
		if reason := aws.ToString(parked.Messages[0].MessageAttributes["reason"].StringValue); !strings.Contains(reason, "unknown machine") {
			t.Errorf("expected the unknown machine to be the reason, got %q", reason)
		}
	})
}

func TestQueuesHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		for queue, want := range map[string][3]string{
			Queue:                     {"true", DeadLetterQueue, "1000"},
			DeadLetterQueue:           {"true", "", ""},
			DelayQueue:                {"", DelayDeadLetterQueue, "1000"},
			DelayDeadLetterQueue:      {"", "", ""},
			ExecutionsQueue:           {"", ExecutionsDeadLetterQueue, "1000"},
			ExecutionsDeadLetterQueue: {"", "", ""},
		} {
			output, err := sqs.NewFromConfig(s.AWS()).GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
				QueueUrl: &queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
			})
			if err != nil {
				t.Fatal(err)
			}
			var redrive struct {
				Target string      `json:"deadLetterTargetArn"`
				Count  json.Number `json:"maxReceiveCount"`
			}
			if policy := output.Attributes["RedrivePolicy"]; policy != "" {
				if err := json.Unmarshal([]byte(policy), &redrive); err != nil {
					t.Fatal(err)
				}
			}
			target := redrive.Target[strings.LastIndex(redrive.Target, ":")+1:]
			if got := [3]string{output.Attributes["FifoQueue"], target, redrive.Count.String()}; got != want {
				t.Errorf("%s: expected FIFO, dead-letter queue and receives %v, got %v", queue, want, got)
			}
		}
	})
}

func TestWaitReportsADeletedQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		if _, err := sqs.NewFromConfig(s.AWS()).DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: aws.String(Queue)}); err != nil {
			t.Fatal(err)
		}
		err := s.Wait(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the function behind settle.fifo has stopped") {
			t.Errorf("expected an error about settle.fifo, got %v", err)
		}
	})
}

func TestWaitReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Wait(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("expected nil after an hour, got %v", err)
		}
	})
}

func TestGatewayRefusesPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden, "": http.StatusAccepted} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.HTTPURL()+"/instances/signup/1/events",
				bytes.NewReader([]byte(`{"type": "CANCEL"}`)))
			if err != nil {
				t.Fatal(err)
			}
			if origin != "" {
				request.Header.Set("Origin", origin)
			}
			answer, err := s.HTTPClient().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("origin %q: expected %d, got %d", origin, want, answer.StatusCode)
			}
		}
	})
}

// pipeListener is a net.Listener whose connections are pipes in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// The gateway disconnects a client that stalls, at any point of its request.
func TestGatewayDisconnectsStalledClients(t *testing.T) {
	t.Parallel()
	const head = "POST /instances/signup/1/events HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		sent   string
		want   time.Duration
		answer string
	}{
		"nothing":    {"", 10 * time.Second, ""},
		"headers":    {head, 10 * time.Second, ""},
		"body":       {head + "Content-Length: 9\r\n\r\n{", 30 * time.Second, "HTTP/1.1 400 Bad Request"},
		"in between": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 2 * time.Minute, "HTTP/1.1 200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Config{})
				defer stop(t, s)
				near, far := net.Pipe()
				pipe := &pipeListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
				pipe.conns <- far
				g := &apiServer{listener: pipe, client: &http.Client{}, served: make(chan struct{})}
				g.serve(s.gateway.handler, nil, func(err error) { t.Error(err) })
				defer func() {
					if err := errors.Join(near.Close(), g.close()); err != nil {
						t.Error(err)
					}
				}()
				started := time.Now()
				if _, err := io.WriteString(near, c.sent); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(near)
				if took := time.Since(started); err != nil || took != c.want || !strings.HasPrefix(string(answer), c.answer) {
					t.Errorf("expected the disconnect after %v and %q, got it after %v, %v and %q", c.want, c.answer, took, err, answer)
				}
			})
		})
	}
}

func TestPortsAreServedAndReleased(t *testing.T) {
	t.Parallel()
	s := start(t, Config{AWSAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0"})
	answer, err := s.HTTPClient().Get(s.HTTPURL() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("expected 200, got %d and %v", answer.StatusCode, err)
	}
	if want := s.AWSURL() + "/000000000000/settle.fifo"; s.QueueURL() != want {
		t.Errorf("expected the queue at %s, got %s", want, s.QueueURL())
	}
	// The second stack tries to listen on the AWS port of the first one. When that fails, the second stack must release
	// its own resources.
	aws := strings.TrimPrefix(s.AWSURL(), "http://")
	if _, err := Start(t.Context(), hosted, Config{AWSAddr: aws}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("expected the port to be in use, got %v", err)
	}
	stop(t, s)
	for _, url := range []string{s.AWSURL(), s.HTTPURL()} {
		listener, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Errorf("expected the port of %s to be free again, got %v", url, err)
			continue
		}
		_ = listener.Close() // The listener only shows that the port is free.
	}
}
