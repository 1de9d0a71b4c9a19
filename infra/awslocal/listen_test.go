package awslocal_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/awslocal/internal/connect"
)

// shutdownPoll is the longest time that closing may take: http.Server.Shutdown polls open connections at least every
// 0.5 s.
const shutdownPoll = 500 * time.Millisecond

// wantClosed closes the server and fails if that takes longer than shutdownPoll. Call it in a synctest bubble.
func wantClosed(t *testing.T, server *awslocal.Server) {
	t.Helper()
	begun := time.Now()
	if err := server.Close(); err != nil {
		t.Errorf("got %v, want the server to close", err)
	}
	if took := time.Since(begun); took > shutdownPoll {
		t.Errorf("closing took %v, want at most %v", took, shutdownPoll)
	}
}

// TestClosingDoesNotWaitForConnectionsWithoutRequests closes a server with two connections. Only one of them has sent a
// request.
func TestClosingDoesNotWaitForConnectionsWithoutRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := connect.Listen()
		server := awslocal.New(awslocal.Config{}).ServeOn(listener)
		silent, err := listener.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: listener.DialContext}}
		response, err := client.Get(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantClosed(t, server)
		if n, err := silent.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("got %d bytes and %v, want the connection closed", n, err)
		}
		if _, err := listener.DialContext(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want a closed port", err)
		}
	})
}

// TestClosingEndsLongPolls closes a server while a receive waits for messages.
func TestClosingEndsLongPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := connect.Listen()
		cloud := awslocal.New(awslocal.Config{})
		server := cloud.ServeOn(listener)
		q := addFIFO(t, cloud, "queue.fifo", nil)
		q.client = sqs.New(sqs.Options{
			Region: awslocal.Region, BaseEndpoint: aws.String(server.URL()), RetryMaxAttempts: 1,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
			HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: listener.DialContext}},
		})
		parked := make(chan error, 1)
		go func() {
			_, err := q.tryReceive(t.Context(), waiting(20))
			parked <- err
		}()
		synctest.Wait()
		wantClosed(t, server)
		if err := <-parked; err == nil {
			t.Error("the long poll succeeded after its server closed, want an error")
		}
	})
}
