// Package inspector shows the instances of a local stack in tools for XState. It serves the protocol of the npm package
// @statelyai/inspect over WebSocket, and a page that connects Stately's inspector to it.
package inspector

import (
	"context"
	"crypto/rand"
	_ "embed" // page.html
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// Limits of an inspector.
const (
	// clientsMax is the maximum number of connected clients.
	clientsMax = 16
	// waitingMax is how many commits may wait for a client. The inspector drops a client that falls further behind.
	waitingMax = 1000
	// existingMax is how many instances a new client receives. Every other instance follows with its next commit.
	existingMax = 200
	// writeMax is how long a client may take to accept a message.
	writeMax = 10 * time.Second
)

// Viewer is the address of Stately's inspector.
const Viewer = "https://stately.ai/inspect"

// Store reads instances. *dynamostore.Store implements it.
type Store interface {
	Load(ctx context.Context, id instances.ID) (instances.Record, error)
	ListPage(ctx context.Context, filter dynamostore.Filter, limit int, cursor string) (dynamostore.Page, error)
}

// Config describes an inspector. Machines and Store are required.
type Config struct {
	Machines *durable.Machines
	Store    Store
	// Origins are the origins, such as http://localhost:5173, whose pages may connect. The inspector's own page and
	// clients without an origin, such as Node.js, may always connect.
	Origins []string
	// Viewer is the inspector that the page shows. Defaults to Viewer.
	Viewer string
	Logger *slog.Logger
}

// Inspector serves clients of the protocol. Its methods are safe for concurrent use.
type Inspector struct {
	config  Config
	viewer  string // the origin of Config.Viewer
	mu      sync.Mutex
	clients map[*client]bool
}

// New returns an inspector. It fails if an origin or the viewer is not valid.
func New(config Config) (*Inspector, error) {
	for _, origin := range config.Origins {
		if err := CheckOrigin(origin); err != nil {
			return nil, err
		}
	}
	if config.Viewer == "" {
		config.Viewer = Viewer
	}
	viewer, err := url.Parse(config.Viewer)
	if err != nil {
		return nil, fmt.Errorf("reading Config.Viewer: %w", err)
	}
	return &Inspector{config: config, viewer: viewer.Scheme + "://" + viewer.Host, clients: map[*client]bool{}}, nil
}

// CheckOrigin returns an error unless the text is an origin, such as http://localhost:5173.
func CheckOrigin(text string) error {
	origin, err := url.Parse(text)
	if err != nil || origin.Scheme != "http" && origin.Scheme != "https" || origin.Host == "" ||
		text != origin.Scheme+"://"+origin.Host || strings.ContainsAny(text, `*?[\`) {
		return fmt.Errorf("expected an origin without path and wildcard, such as http://localhost:5173, got %q", text)
	}
	return nil
}

// Committed passes a commit to all clients. It never blocks. Use it as durable.Observer.Committed.
func (i *Inspector) Committed(_ context.Context, committed durable.Committed) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for client := range i.clients {
		select {
		case client.commits <- committed:
		default:
			client.drop(errSlow)
			delete(i.clients, client)
		}
	}
}

var (
	// errSlow is the reason to drop a client that is behind. A WebSocket limits the reason to 123 bytes.
	errSlow = fmt.Errorf("too slow: more than %d commits waited for this client; connect again", waitingMax)
	// errGone is the reason if the client has left.
	errGone = errors.New("the client has left")
)

// ServeHTTP serves the protocol to WebSocket clients, and the page to others. The caller must check the host of the
// request.
func (i *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		i.servePage(w, r)
		return
	}
	ctx, drop := context.WithCancelCause(r.Context())
	defer drop(nil)
	c := &client{config: &i.config, commits: make(chan durable.Committed, waitingMax), drop: drop, known: map[string]actor{}}
	// Add the client before reading the existing instances, so that it misses no commit.
	if !i.add(c) {
		http.Error(w, fmt.Sprintf("expected at most %d clients: close some", clientsMax), http.StatusServiceUnavailable)
		return
	}
	defer i.remove(c)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: i.config.Origins})
	if err != nil {
		i.config.Logger.Warn("inspector refused a client", "error", err, "fix", "to allow a page, name its origin with --inspect-origin")
		return
	}
	defer func() { _ = conn.CloseNow() }() // CloseNow returns an error if the connection is already closed.
	// If the end of ctx stopped the reading, the client would not receive the reason that Close sends.
	gone := conn.CloseRead(context.WithoutCancel(ctx))
	defer context.AfterFunc(gone, func() { drop(errGone) })()
	c.send = func(ctx context.Context, message []byte) error {
		ctx, cancel := context.WithTimeout(ctx, writeMax)
		defer cancel()
		err := conn.Write(ctx, websocket.MessageText, message)
		if err != nil && ctx.Err() == nil {
			return errGone
		}
		return err
	}
	err = c.follow(ctx)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errGone), cause == nil && errors.Is(err, errGone):
	case errors.Is(cause, errSlow):
		i.config.Logger.Warn("inspector dropped a client", "error", errSlow)
		_ = conn.Close(websocket.StatusTryAgainLater, errSlow.Error())
	case cause != nil:
		_ = conn.Close(websocket.StatusGoingAway, "settle dev is stopping")
	default:
		i.config.Logger.Warn("inspector dropped a client", "error", err)
		_ = conn.Close(websocket.StatusInternalError, "settle dev has logged the reason")
	}
}

func (i *Inspector) add(c *client) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.clients) >= clientsMax {
		return false
	}
	i.clients[c] = true
	return true
}

func (i *Inspector) remove(c *client) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.clients, c)
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// servePage serves the page that passes the messages of the WebSocket to the viewer.
func (i *Inspector) servePage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed: expected GET, HEAD or a WebSocket, got "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	nonce := rand.Text()
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+"'; "+
		"connect-src 'self'; frame-src "+i.viewer+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, map[string]string{"Nonce": nonce, "Viewer": i.config.Viewer, "Origin": i.viewer}) // The client may have left.
}
