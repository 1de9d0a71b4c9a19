// Package console serves a web console for Settle: machines with the number of instances in each state, instances with
// their charts and timelines, and parked events. Pages follow the store while they are open. With Config.Write, forms
// send events, redrive and drop parked ones, and stop, terminate, move, keep and unkeep instances, one or many at a
// time. Without it, the console only reads.
//
//	handler, err := console.New(console.Config{Machines: machines, Store: store, Title: "settle · eu-west-1"})
//	mux.Handle("/console/", login(handler))
//
// The console does not authenticate users. Everybody with access to the handler sees the contexts of instances and the
// bodies of parked events. Task tokens are never shown.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// Store reads instances. *dynamostore.Store implements it.
type Store interface {
	// Load reads an instance consistently. Without an item, it returns a record with only Instance set.
	Load(ctx context.Context, id instances.ID) (instances.Record, error)
	// ListPage and Count fail with dynamostore.ErrNoIndex if the table has no index.
	ListPage(ctx context.Context, filter dynamostore.Filter, limit int, cursor string) (dynamostore.Page, error)
	Count(ctx context.Context, machine string) (dynamostore.Counts, error)
}

// DeadLetters reads parked events. deadletter.Queues implements it.
type DeadLetters interface {
	// Count returns about how many messages there are.
	Count(ctx context.Context) (int, error)
	// Read returns up to `limit` messages, and leaves them where they are. With an error, it may return some.
	Read(ctx context.Context, limit int) ([]*deadletter.Message, error)
}

// Config describes a console. Machines and Store are required.
type Config struct {
	Machines *durable.Machines
	Store    Store
	// DeadLetters are the parked events. Without it, the console has no page for them.
	DeadLetters DeadLetters
	// Write lets the console send events, redrive and drop parked ones, and change instances. Without it, the console
	// only reads.
	Write *Write
	// Title says what the console is connected to, such as "settle dev · table settle". Each page shows it.
	Title string
	// Prefix is the path below which the console is served, without a trailing slash. Defaults to "/console".
	Prefix string
	// Poll is the time between two reads of an open page. If a read takes more than a twentieth of Poll, the time is
	// longer. Defaults to 5 seconds.
	Poll time.Duration
	// AllowHosts are the host names that requests may use, besides localhost and the loopback addresses. The names have
	// no port, because a request may use any port.
	AllowHosts []string
	// ReadUnits returns the read units that Store has consumed so far. If it is set, pages show the cost of their reads.
	ReadUnits func() float64
	// Now is the clock for ages and countdowns. Defaults to time.Now.
	Now func() time.Time
}

const (
	// pollDefault is the default of Config.Poll.
	pollDefault = 5 * time.Second
	// readTimeout limits the time to read a page.
	readTimeout = 20 * time.Second
	// countTimeout limits the time to count the parked events, and to count the instances of each machine in the list.
	countTimeout = 5 * time.Second
	// parkedAge is the minimum time for which the number of parked events is cached.
	parkedAge = time.Second
)

// console serves the pages.
type console struct {
	Config
	templates *template.Template
	assets    assets
	charts    charts
	streams   streams
	jobs      jobs
	token     string

	mu     sync.Mutex
	parked parkedCount
}

// parkedCount is the number of parked events at a point in time.
type parkedCount struct {
	At    time.Time
	Count int
	Err   error
}

var (
	// prefixes matches Config.Prefix. No segment begins with a dot, because browsers remove dot segments.
	prefixes = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
	// hostNames matches an element of Config.AllowHosts that is not an IP address.
	hostNames = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)
)

// New returns the handler of a console. It serves requests below Config.Prefix, and is safe for concurrent use. With
// GET and HEAD, it only reads. It fails if Machines or Store is missing, if Write is incomplete, or if Prefix or a name
// of AllowHosts is not valid.
func New(config Config) (http.Handler, error) {
	if config.Machines == nil || config.Store == nil {
		return nil, errors.New("creating the console: expected Machines and Store, got none")
	}
	if config.Write != nil && (config.Write.Queue == nil || config.Write.Store == nil) {
		return nil, errors.New("creating the console: expected Queue and Store in Write, got none: without Write, the console only reads")
	}
	if config.Write != nil {
		write := *config.Write
		write.Command = cmp.Or(write.Command, "settle send")
		if write.Context == nil {
			write.Context = context.Background()
		}
		config.Write = &write
	}
	if config.Prefix == "" {
		config.Prefix = "/console"
	}
	if !prefixes.MatchString(config.Prefix) {
		return nil, fmt.Errorf("creating the console: expected a Prefix such as /console or /ops/settle, with letters, digits, -, _ and . between slashes, got %q", config.Prefix)
	}
	for _, host := range config.AllowHosts {
		if !hostNames.MatchString(host) && net.ParseIP(host) == nil {
			return nil, fmt.Errorf("creating the console: expected names such as ops.example.com in AllowHosts, without scheme, port and wildcard, got %q", host)
		}
	}
	if config.Poll <= 0 {
		config.Poll = pollDefault
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	c := &console{Config: config, assets: loadAssets(), token: newToken()}
	c.streams.open = map[string]*stream{}
	c.templates = c.parseTemplates()
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(c.serve)), nil
}

// policy is the Content-Security-Policy of all answers.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func (c *console) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	if err := c.checkHost(r.Host); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if err := checkOrigin(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	path, below := strings.CutPrefix(r.URL.EscapedPath(), c.Prefix+"/")
	if r.Method == http.MethodPost && below && c.Write != nil {
		c.servePost(w, r, path)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		allowed := "GET, HEAD"
		if _, err := c.findForm(path); err == nil && below && c.Write != nil {
			allowed += ", POST"
		}
		header.Set("Allow", allowed)
		http.Error(w, "method not allowed: expected "+allowed+", got "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	switch first, rest, _ := strings.Cut(path, "/"); {
	case r.URL.Path == c.Prefix:
		http.Redirect(w, r, c.Prefix+"/", http.StatusMovedPermanently)
	case !below:
		c.serveProblem(w, r, notFound("There is no such page.", "The console is at "+c.Prefix+"/."))
	case first == "assets":
		c.serveAsset(w, r, rest)
	case path == "find":
		http.Redirect(w, r, c.instanceURL(strings.TrimSpace(r.URL.Query().Get("instance"))), http.StatusSeeOther)
	case first == "live":
		c.serveStream(w, r, rest)
	default:
		c.servePage(w, r, path)
	}
}

// checkHost refuses host names that Config does not allow, to prevent DNS rebinding: an attacker's web page can bind
// its own host name to a loopback address. The browser then treats the console as the page's own origin, but still
// sends the page's host name.
func (c *console) checkHost(host string) error {
	name := (&url.URL{Host: host}).Hostname()
	if strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback() ||
		slices.ContainsFunc(c.AllowHosts, func(allowed string) bool { return strings.EqualFold(name, allowed) }) {
		return nil
	}
	return fmt.Errorf("expected localhost, a loopback address or an allowed name as the host of the request, got %q: if you trust this name, add it to AllowHosts", name)
}

// checkOrigin refuses requests by scripts and elements of other sites, but allows links. It also refuses requests that
// only read, because reading parked events hides them from other readers for a moment. http.CrossOriginProtection
// checks the requests that write.
func checkOrigin(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return errors.New("expected a request of the console's own pages, got one of another site: open the console in a tab of its own")
	}
	return nil
}

// builder reads the data of a page.
type builder func(ctx context.Context) (*page, error)

// find returns the builder of the page at the path.
func (c *console) find(path string, query url.Values) (builder, error) {
	segments, err := segmentsOf(path)
	switch {
	case err != nil:
		return nil, err
	case path == "":
		return c.machinesPage, nil
	case len(segments) == 2 && segments[0] == "machines":
		return func(ctx context.Context) (*page, error) { return c.machinePage(ctx, segments[1], query) }, nil
	case len(segments) == 3 && segments[0] == "instances":
		return func(ctx context.Context) (*page, error) {
			return c.instancePage(ctx, segments[1]+"/"+segments[2], query)
		}, nil
	case isEvent(segments) && c.Write != nil:
		return func(ctx context.Context) (*page, error) {
			return c.eventPage(ctx, segments[1]+"/"+segments[2], segments[4])
		}, nil
	case c.isOperation(segments):
		return func(ctx context.Context) (*page, error) {
			return c.operationPage(ctx, segments[1]+"/"+segments[2], segments[4], query)
		}, nil
	case c.isBulk(segments):
		return func(ctx context.Context) (*page, error) { return c.bulkPage(ctx, segments[1], query) }, nil
	case c.isJob(segments):
		return func(ctx context.Context) (*page, error) { return c.jobPage(ctx, segments[1]) }, nil
	case path == "parked" && c.DeadLetters != nil:
		return func(ctx context.Context) (*page, error) { return c.parkedPage(ctx, query) }, nil
	case c.isParked(segments):
		return func(ctx context.Context) (*page, error) { return c.parkedForm(ctx, segments[1]) }, nil
	}
	return nil, notFound("There is no such page.", "Machines, instances and parked events have pages.")
}

// segmentsOf returns the decoded segments of a path.
func segmentsOf(path string) ([]string, error) {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		var err error
		if segments[i], err = url.PathUnescape(segment); err != nil {
			return nil, notFound("The address is not valid.", err.Error())
		}
	}
	return segments, nil
}

// countParked returns the number of parked events. All pages share the count, so it is read at most once per interval.
func (c *console) countParked(ctx context.Context) parkedCount {
	if c.DeadLetters == nil {
		return parkedCount{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.parked.At.IsZero() || now.Sub(c.parked.At) >= max(c.Poll, parkedAge) {
		// All pages share the count, so counting continues when the request that started it ends.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		count, err := c.DeadLetters.Count(ctx)
		c.parked = parkedCount{At: now, Count: count, Err: err}
	}
	return c.parked
}
