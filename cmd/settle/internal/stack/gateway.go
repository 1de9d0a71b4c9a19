package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// shutdownTimeout is how long close waits for requests in flight.
const shutdownTimeout = 5 * time.Second

// The gateway's timeouts keep a stalled client from holding its connection forever. They limit the wait for the
// headers, for the whole request, for creating and writing the response (the timeout of a function), and for the next
// request.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = functionTimeoutDefault
	idleTimeout       = 2 * time.Minute
)

// apiServer serves the API on a port or, without an address, over pipes in memory.
type apiServer struct {
	listener  net.Listener
	server    *http.Server // nil until it serves
	url       string
	client    *http.Client
	transport *http.Transport
	served    chan struct{} // closed when the server has stopped
}

// listen returns a gateway with an address that does not serve yet. Clients that connect wait.
func listen(addr string) (*apiServer, error) {
	g := &apiServer{transport: &http.Transport{}, served: make(chan struct{})}
	g.client = &http.Client{Transport: g.transport}
	if addr == "" {
		pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		g.transport.DialContext = pipes.dial
		g.url, g.listener = "http://gateway.local", pipes
		return g, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g.url, g.listener = "http://"+listener.Addr().String(), listener
	return g, nil
}

// serve serves the handler until close.
func (g *apiServer) serve(handler http.Handler, fail func(error)) {
	g.server = &http.Server{
		// A web page of another origin must not be able to send events to a developer's machine.
		Handler:           http.NewCrossOriginProtection().Handler(handler),
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
		return g.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	g.transport.CloseIdleConnections()
	if err := g.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", g.url, err)
	}
	<-g.served
	return nil
}

// pipeListener is a net.Listener whose connections are pipes in memory.
type pipeListener struct {
	conns  chan net.Conn
	close  sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the far end of the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Open connections stay open.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a placeholder.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
