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

// shutdownTimeout is how long Close waits for calls under way.
const shutdownTimeout = 5 * time.Second

// Server serves a Cloud on a loopback port.
type Server struct {
	http   *http.Server
	url    string
	hangUp context.CancelCauseFunc // ends the calls that wait for messages
	served chan error              // what http.Server.Serve returned

	mu      sync.Mutex
	closing bool
	// silent are the connections on which nothing was asked yet, such as those that clients open to have one at hand.
	// http.Server.Shutdown waits five seconds for them.
	silent map[net.Conn]bool
}

// Listen serves c on addr, host and port, such as "127.0.0.1:4566"; port 0 takes a free one.
// The host must be a loopback address or localhost, because every caller may do everything.
// For the same reason a request that a web page of another origin makes is refused.
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
			Handler:           http.NewCrossOriginProtection().Handler(c),
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

// track keeps silent.
func (s *Server) track(connection net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.silent, connection)
	case s.closing:
		_ = connection.Close() // Nobody waits for anything on it.
	default:
		s.silent[connection] = true
	}
}

// leaveSilent closes the connections on which nothing was asked, also those that come yet.
func (s *Server) leaveSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for connection := range s.silent {
		_ = connection.Close() // Nobody waits for anything on it.
	}
}

// URL returns the address of the server, such as "http://127.0.0.1:4566", for BaseEndpoint
// of an SDK or AWS_ENDPOINT_URL.
func (s *Server) URL() string { return s.url }

// Close stops listening, ends the calls that wait for messages, and lets the others finish.
// The Cloud remains and can be served again.
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
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listening: awslocal lets every caller do everything, so it listens on loopback "+
			"only: expected 127.0.0.1, [::1] or localhost, got %q", host)
	}
	return nil
}
