package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// shutdownTimeout is how long close waits for requests in flight.
const shutdownTimeout = 5 * time.Second

// The gateway's timeouts, named after the fields of http.Server, keep a stalled client from holding its connection
// forever. writeTimeout also limits the time to create the response, so it equals the timeout of a function.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = functionTimeoutDefault
	idleTimeout       = 2 * time.Minute
)

// apiServer serves the API on a port or, without an address, in process.
type apiServer struct {
	listener net.Listener // nil without an address
	handler  http.Handler // nil until serve is called
	server   *http.Server // nil without an address, and until serve is called
	url      string
	client   *http.Client
	served   chan struct{} // closed when the server has stopped
}

// listen returns a gateway that has an address but does not serve yet. Clients that connect wait.
func listen(addr string) (*apiServer, error) {
	g := &apiServer{url: "http://gateway.local", served: make(chan struct{})}
	g.client = &http.Client{Transport: g}
	if addr == "" {
		return g, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g.url, g.listener, g.client.Transport = "http://"+listener.Addr().String(), listener, &http.Transport{}
	return g, nil
}

// RoundTrip implements http.RoundTripper. It calls the handler in process.
func (g *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	g.handler.ServeHTTP(recorder, request)
	return recorder.Result(), nil
}

// serve serves the handler until `close` is called. A web page must not reach a developer's machine, either from
// another origin or by binding its own host name to a loopback address. So a port accepts only the host names of this
// machine and allowHosts.
func (g *apiServer) serve(handler http.Handler, allowHosts []string, fail func(error)) {
	g.handler = http.NewCrossOriginProtection().Handler(handler)
	if g.listener == nil {
		return
	}
	g.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := awslocal.CheckHost(r.Host, allowHosts); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			g.handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}
	go func() {
		defer close(g.served)
		if err := g.server.Serve(g.listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("the gateway has stopped: %w", err))
		}
	}()
}

func (g *apiServer) close() error {
	if g.server == nil {
		if g.listener == nil {
			return nil
		}
		return g.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	g.client.CloseIdleConnections()
	if err := g.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", g.url, err)
	}
	<-g.served
	return nil
}
