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

// shutdownTimeout is how long closing waits for requests under way.
const shutdownTimeout = 5 * time.Second

// How long the gateway waits for a client, so that one that stalls does not hold its connection
// for ever: for the headers, for the whole request, for the answer to be made and taken (as long
// as a function gets), and for the next request.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = functionTimeout
	idleTimeout       = 2 * time.Minute
)

// gateway serves the API on a port or, without an address, over pipes in memory.
type gateway struct {
	server    *http.Server
	url       string
	client    *http.Client
	transport *http.Transport
	served    chan struct{} // closed when the server has stopped
}

func serveGateway(addr string, handler http.Handler, fail func(error)) (*gateway, error) {
	g := &gateway{transport: &http.Transport{}, served: make(chan struct{})}
	g.client = &http.Client{Transport: g.transport}
	listener, err := g.listen(addr)
	if err != nil {
		return nil, err
	}
	g.server = &http.Server{
		// A web page of another origin must not send events to whoever develops here.
		Handler:           http.NewCrossOriginProtection().Handler(handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}
	go func() {
		defer close(g.served)
		if err := g.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("the gateway has stopped: %w", err))
		}
	}()
	return g, nil
}

func (g *gateway) listen(addr string) (net.Listener, error) {
	if addr == "" {
		pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		g.transport.DialContext = pipes.dial
		g.url = "http://gateway.local"
		return pipes, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err == nil {
		g.url = "http://" + listener.Addr().String()
	}
	return listener, err
}

func (g *gateway) close() error {
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

// Close ends Accept; connections that are open stay so.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address that nothing can be reached at.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
