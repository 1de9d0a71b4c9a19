package awslocal_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/awslocal"
)

// TestClosingDoesNotWaitForConnectionsThatAskNothing closes a server to which a client keeps a connection at hand, and one that it has used.
func TestClosingDoesNotWaitForConnectionsThatAskNothing(t *testing.T) {
	t.Parallel()
	server, err := awslocal.New(awslocal.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL(), "http://")
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	response, err := http.Get(server.URL()) // Once there is an answer, the connection before is accepted too.
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	begun := time.Now()
	if err := server.Close(); err != nil {
		t.Errorf("got %v, want the server to close", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("closing took %v, want it not to wait for who asks nothing", took)
	}
	if err := silent.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("got %d bytes and %v, want the connection closed", n, err)
	}
	if connection, err := net.Dial("tcp", address); err == nil {
		_ = connection.Close()
		t.Error("expected that nothing listens any more")
	}
}
