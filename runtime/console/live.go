package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// streamsMax limits the open streams, and watchedMax the pages that they follow.
	streamsMax, watchedMax = 1000, 200
	// writeMax limits the time that the client of a stream may take to accept a message.
	writeMax = 30 * time.Second
	// failedWaitMax limits the wait after a failed read. Without it, a read that lasted until its timeout would cause a
	// long wait.
	failedWaitMax = 30 * time.Second
	// heartbeat is the longest time without a message on a stream.
	heartbeat = 5 * time.Second
	// reconnectAfter is the time that a browser waits before it reconnects.
	reconnectAfter = time.Second
	// idleFactor is the minimum time between two reads, as a multiple of the duration of a read. So following a page
	// takes at most a twentieth of a core.
	idleFactor = 20
)

// streams are the streams of all followed pages. All streams of one page share one poller.
type streams struct {
	mu   sync.Mutex
	open map[string]*stream // by address
	// clients counts the streams of all pages.
	clients int
	// metered serializes the reads of all followed pages if Config.ReadUnits is set, so that each read counts only its
	// own units.
	metered sync.Mutex
}

// stream is the stream of a followed page.
type stream struct {
	clients int
	stop    context.CancelFunc

	mu      sync.Mutex
	current *reading
	changed chan struct{} // closed when current is replaced
}

// reading is the result of the poller's last read. It is immutable.
type reading struct {
	at    time.Time
	parts map[string]string
	// every is the time until the next read.
	every time.Duration
	// problem says why the last read failed, or is empty. After a failure, the parts are from the previous read.
	problem string
}

// message is an event of a stream.
type message struct {
	// Now is the console's time, and Read the time of the last read, in milliseconds since 1970.
	Now  int64 `json:"now"`
	Read int64 `json:"read"`
	// Every is the current time between two reads of the page, such as "5 s".
	Every string `json:"every"`
	// Parts are the parts of the page that have changed, as HTML.
	Parts   map[string]string `json:"parts,omitempty"`
	Problem string            `json:"problem,omitempty"`
}

// serveStream sends the changes of a page as server-sent events until the client disconnects. path is the page's
// address below live/. The parameter `since` is the time of the client's reading, in milliseconds since 1970.
func (c *console) serveStream(w http.ResponseWriter, r *http.Request, path string) {
	query := r.URL.Query()
	since, _ := strconv.ParseInt(query.Get("since"), 10, 64) // 0 if it is missing.
	shown := time.UnixMilli(since)
	query.Del("since")
	build, err := c.find(path, query)
	if err == nil && (!isFollowed(path, query) || r.Method != http.MethodGet) {
		err = notFound("This page does not follow the store.", "Reload it to read again.")
	}
	if err != nil {
		c.serveProblem(w, r, err)
		return
	}
	key := path + "?" + query.Encode()
	s, ok := c.follow(key, build)
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many open pages: close some", http.StatusServiceUnavailable)
		return
	}
	defer c.leave(key, s)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // This fails only for a server without deadlines.
	_, _ = fmt.Fprintf(w, "retry: %d\n\n", reconnectAfter.Milliseconds())
	sent := map[string]string{}
	var wrote time.Time
	for {
		s.mu.Lock()
		current, changed := s.current, s.changed
		s.mu.Unlock()
		if current != nil && current.at.Before(shown) { // The poller's reading is older than the page.
			current = &reading{at: shown, every: current.every, problem: current.problem}
		}
		if m, fresh := current.since(sent, c.Now()); current != nil && (fresh || time.Since(wrote) >= heartbeat) {
			wrote = time.Now()
			_ = out.SetWriteDeadline(wrote.Add(writeMax))
			text, err := json.Marshal(m)
			if err == nil {
				_, err = fmt.Fprintf(w, "data: %s\n\n", text)
			}
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(heartbeat): // A proxy may end a silent stream.
		}
	}
}

// isFollowed reports whether the page at the path follows the store: the machines, a machine without the filter for
// stuck instances, an instance, or a job. Other pages hide messages from other readers, read much, or contain a form.
func isFollowed(path string, query url.Values) bool {
	first, rest, _ := strings.Cut(path, "/")
	switch {
	case path == "":
		return true
	case first == "machines":
		return !strings.Contains(rest, "/") && query.Get("only") != onlyStuck
	case first == "jobs":
		return true
	default:
		return first == "instances" && strings.Count(rest, "/") == 1
	}
}

// since returns a message with the parts that differ from those in `sent`, and adds these parts to `sent`. fresh is set
// if the parts or the problem have changed.
func (r *reading) since(sent map[string]string, now time.Time) (m message, fresh bool) {
	if r == nil {
		return message{}, false
	}
	m = message{Now: now.UnixMilli(), Read: r.at.UnixMilli(), Every: duration(r.every), Parts: map[string]string{}, Problem: r.problem}
	for name, html := range r.parts {
		if before, ok := sent[name]; !ok || before != html {
			m.Parts[name], sent[name] = html, html
		}
	}
	fresh = len(m.Parts) > 0 || sent["problem"] != r.problem
	sent["problem"] = r.problem
	return m, fresh
}

// follow adds a client to the stream of a page. The first client starts the poller. ok is false if there are too many.
func (c *console) follow(key string, build builder) (s *stream, ok bool) {
	c.streams.mu.Lock()
	defer c.streams.mu.Unlock()
	s = c.streams.open[key]
	if c.streams.clients >= streamsMax || s == nil && len(c.streams.open) >= watchedMax {
		return nil, false
	}
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &stream{stop: stop, changed: make(chan struct{})}
		c.streams.open[key] = s
		go c.poll(ctx, s, build)
	}
	s.clients++
	c.streams.clients++
	return s, true
}

// leave removes a client. When the last client leaves, it stops the poller.
func (c *console) leave(key string, s *stream) {
	c.streams.mu.Lock()
	defer c.streams.mu.Unlock()
	c.streams.clients--
	if s.clients--; s.clients == 0 {
		s.stop()
		delete(c.streams.open, key)
	}
}

// poll reads the page repeatedly until ctx ends.
func (c *console) poll(ctx context.Context, s *stream, build builder) {
	cost := ""
	for {
		next, took, units := c.read(ctx, s, build, cost)
		if ctx.Err() != nil {
			return
		}
		wait := max(c.Poll, idleFactor*took)
		if next.problem != "" {
			wait = max(c.Poll, min(wait, failedWaitMax))
		}
		if c.ReadUnits != nil {
			cost = costOf(units, wait)
		}
		s.mu.Lock()
		next.every = wait
		s.current = next
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// read reads the page once. cost is the cost of the previous read.
func (c *console) read(ctx context.Context, s *stream, build builder, cost string) (next *reading, took time.Duration, units float64) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if c.ReadUnits != nil {
		c.streams.metered.Lock()
		defer c.streams.metered.Unlock()
		before := c.ReadUnits()
		defer func() { units = c.ReadUnits() - before }()
	}
	started := time.Now()
	defer func() { took = time.Since(started) }()
	next = &reading{at: c.Now()}
	var err error
	next.parts, err = c.buildParts(ctx, build, cost)
	if err != nil {
		next.problem = problemOf(err).Error()
		if s.current != nil {
			next.parts = s.current.parts
		}
	}
	return next, took, units
}

// buildParts reads the page and renders its parts. A machine's own decoder may panic. The poller is not a request, so
// net/http does not recover the panic.
func (c *console) buildParts(ctx context.Context, build builder, cost string) (parts map[string]string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	p, err := build(ctx)
	if err != nil {
		return nil, err
	}
	v := c.view(ctx, p)
	v.Cost = cost
	return c.parts(v)
}

// readUnitPrice is the list price of a DynamoDB read request unit in us-east-1, in US dollars. See docs/cost.md.
const readUnitPrice = 0.125e-6

// costOf describes the cost of following a page.
func costOf(units float64, interval time.Duration) string {
	day := units * readUnitPrice * float64(24*time.Hour) / float64(interval)
	return fmt.Sprintf("%.4g read units every %s, about $%.2g a day", units, duration(interval), day)
}
