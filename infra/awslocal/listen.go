package awslocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// shutdownTimeout limits how long Close waits for calls in progress.
const shutdownTimeout = 5 * time.Second

// Server serves a Cloud on a loopback port.
type Server struct {
	http   *http.Server
	url    string
	hangUp context.CancelCauseFunc // ends the calls that wait for messages
	served chan error              // the result of http.Server.Serve

	mu      sync.Mutex
	closing bool
	// silent holds the connections on which no request has arrived so far. Clients open such connections in advance.
	// http.Server.Shutdown would wait five seconds for them.
	silent map[net.Conn]bool
}

// Listen serves c on addr, a host and port such as "127.0.0.1:4566". Port 0 selects a free port. The host must be a
// loopback address or localhost, because every caller has full access. For the same reason, Listen rejects requests
// from web pages of other origins, and requests for other hosts that are not in Config.AllowHosts.
func (c *Cloud) Listen(addr string) (*Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return c.serveOn(listener), nil
}

// serveOn serves c on a listener.
func (c *Cloud) serveOn(listener net.Listener) *Server {
	ctx, hangUp := context.WithCancelCause(context.Background())
	s := &Server{
		http: &http.Server{
			Handler:           http.NewCrossOriginProtection().Handler(http.HandlerFunc(c.serveAllowed)),
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: 10 * time.Second,
		},
		url:    "http://" + listener.Addr().String(),
		hangUp: hangUp,
		served: make(chan error, 1), silent: map[net.Conn]bool{},
	}
	s.http.ConnState = s.track
	go func() { s.served <- s.http.Serve(listener) }()
	return s
}

// track keeps the field `silent` up to date. Once the server is closing, track closes new connections.
func (s *Server) track(connection net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.silent, connection)
	case s.closing:
		_ = connection.Close() // An error does not matter: the connection has no request.
	default:
		s.silent[connection] = true
	}
}

// leaveSilent closes each connection that has sent no request. From then on, track closes new connections too.
func (s *Server) leaveSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for connection := range s.silent {
		_ = connection.Close() // An error does not matter: the connection has no request.
	}
}

// URL returns the address of the server, such as "http://127.0.0.1:4566". Use it as an SDK's BaseEndpoint or as
// AWS_ENDPOINT_URL.
func (s *Server) URL() string { return s.url }

// Close stops listening, ends the calls that wait for messages, and lets the other calls finish. The Cloud stays
// usable and can be served again.
func (s *Server) Close() error {
	s.hangUp(errors.New("the server is closing"))
	s.leaveSilent()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", s.url, err)
	}
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", s.url, err)
	}
	return nil
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listening: expected host:port such as 127.0.0.1:4566, got %q: %w", addr, err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("listening: awslocal gives every caller full access, so it listens on loopback "+
			"only: expected 127.0.0.1, [::1] or localhost, got %q", host)
	}
	return nil
}
