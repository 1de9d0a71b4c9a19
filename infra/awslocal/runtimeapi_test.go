package awslocal

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheRuntimeAPIAcceptsOnlyHostsOfThisMachine(t *testing.T) {
	t.Parallel()
	p := newProcess(nil)
	address, err := p.serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.api.Close() })
	for host, want := range map[string]int{address: http.StatusNotFound, "localhost": http.StatusNotFound, "rebound.example.com": http.StatusForbidden} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		p.api.Handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %s: got status %d, want %d: %s", host, w.Code, want, w.Body)
		}
	}
}

func TestAnEndedProcessGetsNoInvocation(t *testing.T) {
	t.Parallel()
	for range 20 { // A choice between two ready channels is random.
		p := newProcess(nil)
		p.next = make(chan *runtimeInvocation, 1) // ready to receive, like a serveNext whose connection is still open
		close(p.exited)
		if got := p.offer(t.Context(), &runtimeInvocation{}); got != offerExited {
			t.Fatalf("got %d, want offerExited", got)
		}
	}
}
