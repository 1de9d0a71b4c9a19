// Package connect connects AWS SDK clients to servers in tests.
package connect

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// Whole returns a transport that reads the whole request body before `next` sends the request. The SDK closes a body as
// soon as there is a response. If http.Transport is still reading the body then, the connection breaks and the response
// fails.
func Whole(next http.RoundTripper) http.RoundTripper { return whole{next} }

type whole struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t whole) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close() // The body has been read.
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return t.next.RoundTrip(r)
}

// Listener is a net.Listener whose connections come from DialContext. They need no socket. In a
// testing/synctest bubble, reads from them are durably blocking, so that tests of connections
// can use virtual time.
type Listener struct {
	dialed chan net.Conn
	close  sync.Once
	closed chan struct{}
}

// Listen returns an open Listener.
func Listen() *Listener {
	return &Listener{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next connection, or net.ErrClosed once l is closed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.dialed:
		return connection, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and DialContext. Open connections stay open.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a loopback address, which nothing listens on.
func (l *Listener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
}

// DialContext returns the client's end of a new connection once Accept has returned the other
// end. It ignores network and address. Use it as the DialContext of an http.Transport. After Close
// it returns net.ErrClosed.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
