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
