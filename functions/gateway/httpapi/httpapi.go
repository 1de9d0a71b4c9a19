// Package httpapi is Settle over HTTP: it sends events to instances, shows instances, and
// takes GitHub's webhooks.
//
//	POST /instances/{machine}/{id}/events  send an event; 202 once the queue has it
//	GET  /instances/{machine}/{id}         the instance as it was stored last
//	GET  /aliases/{alias}                  the same, of the instance that has the alias
//	GET  /machines                         the machines and the events they take
//	POST /webhooks/github                  GitHub's webhooks, unmodified and signed
//	POST /webhooks/{provider}/{id}/{until}/{key}
//	                                       the callback of a third party, once
//	GET  /healthz                          200 while the process serves
//
// An event is checked before it is queued: what the machine would never take is refused with
// a reason, not parked later. 202 promises that the queue holds the event, nothing about what
// the instance makes of it.
//
// An event that carries an ID, as Idempotency-Key header or under its key "$id", counts once
// for its instance however often it is sent. An ID that was used for another event is refused
// with 409, and nothing is queued. Without an ID every request counts: two RESEND
// in a row are two events, so a client that repeats a request after a lost answer must give
// an ID.
//
// Refusals are problem details (RFC 9457) with a code beside the text. The handler knows no
// users: put an authorizer of API Gateway, IAM or a proxy in front of it. Only the webhooks,
// whose signature or address it checks, are safe to leave open.
package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// Limits of what the API takes.
const (
	// EventBytesMax is the default of Config.EventBytesMax.
	EventBytesMax = 256 << 10
	// QueueBytesMax is the largest message that SQS takes, and so the highest that
	// Config.EventBytesMax may be.
	QueueBytesMax = 1 << 20
	// EventIDBytesMax is the longest ID that an event may have. Instances keep the IDs of
	// their recent events.
	EventIDBytesMax = 256
	// WebhookBytesMax is the largest payload that GitHub delivers. What is queued of it is
	// small.
	WebhookBytesMax = 25 << 20
)

// Store reads what is stored of instances, redeems aliases, and reserves event IDs; *dynamostore.Store is one.
type Store interface {
	// Load reads the record; an instance without one gives Revision 0.
	Load(ctx context.Context, id durable.InstanceID) (durable.Record, error)
	// Find returns the instance that has the alias, or had it last. Fails with dynamostore.ErrNoAlias.
	Find(ctx context.Context, alias string) (durable.InstanceID, error)
	// Redeem stores the event of a callback with the alias of the instance, if it is the first; see
	// durable.Redemption. A call that is repeated under the same by is answered as it was before.
	Redeem(ctx context.Context, alias string, id durable.InstanceID, event json.RawMessage, by string) (durable.Redemption, error)
	// Reserve reserves the ID, which a client has given, for this event to the instance, from at on. Fails with
	// dynamostore.ErrIDReused if it is reserved for another event. A call that is repeated succeeds again.
	Reserve(ctx context.Context, to durable.InstanceID, eventID string, event json.RawMessage, at time.Time) error
}

// Config tunes the API. The zero value is useful.
type Config struct {
	// GitHubSecret is what GitHub signs its webhooks with. Empty means that no webhook can
	// be told from a forgery: all are refused with 503.
	GitHubSecret string
	// Callbacks are the third parties that call back, by the name that is part of the address.
	Callbacks map[string]Callback
	// EventBytesMax limits an event as it is queued, its ID included. Defaults to 256 KiB;
	// at most QueueBytesMax.
	EventBytesMax int
	// Logger takes a line an event and a line a refusal: never a body, a signature or a
	// header. Defaults to slog.Default.
	Logger *slog.Logger
	// Now is the clock by which the addresses of callbacks and reserved event IDs expire. Defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.EventBytesMax == 0 {
		c.EventBytesMax = EventBytesMax
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate(machines *durable.Machines) error {
	if c.EventBytesMax < 1 || c.EventBytesMax > QueueBytesMax {
		return fmt.Errorf("httpapi: expected Config.EventBytesMax between 1 and %d, got %d", QueueBytesMax, c.EventBytesMax)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Callbacks)) {
		if err := c.Callbacks[name].validate(machines); err != nil {
			return fmt.Errorf("httpapi: Config.Callbacks[%q]: %w", name, err)
		}
	}
	if c.GitHubSecret == "" {
		return nil
	}
	if _, err := machines.Lookup(WebhookMachine); err != nil {
		return fmt.Errorf("httpapi: Config.GitHubSecret asks for webhooks, which become events of the machine %q: %w", WebhookMachine, err)
	}
	return nil
}

// api is the handler that New returns. It keeps no state between requests.
type api struct {
	machines *durable.Machines
	sender   durable.Sender
	store    Store
	config   Config
	mux      *http.ServeMux
}

// New returns the handler of the API: events go to sender, instances come from store. It is
// safe for concurrent use and fit for a server as well as for Lambda.
func New(machines *durable.Machines, sender durable.Sender, store Store, config Config) (http.Handler, error) {
	config = config.withDefaults()
	if err := config.validate(machines); err != nil {
		return nil, err
	}
	a := &api{machines: machines, sender: sender, store: store, config: config, mux: http.NewServeMux()}
	a.mux.Handle("POST /instances/{machine}/{id}/events", endpoint{a, a.postEvent})
	a.mux.Handle("GET /instances/{machine}/{id}", endpoint{a, a.getInstance})
	a.mux.Handle("GET /aliases/{alias...}", endpoint{a, a.getAlias})
	a.mux.Handle("GET /machines", endpoint{a, a.getMachines})
	a.mux.Handle("POST /webhooks/github", endpoint{a, a.postGitHub})
	a.mux.Handle("POST /webhooks/{provider}/{id}/{until}/{key}", endpoint{a, a.postCallback})
	a.mux.Handle("GET /healthz", endpoint{a, a.getHealth})
	return a, nil
}

// ServeHTTP answers every request with JSON, also those that have no route, and those that
// make a payload's own code panic.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			// Not the panic's value: it may quote the body.
			a.config.Logger.ErrorContext(r.Context(), "panic", "route", r.Pattern, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			a.refuse(w, r, errPanic)
		}
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	handler, _ := a.mux.Handler(r)
	if _, ok := handler.(endpoint); !ok {
		a.refuse(w, r, a.unrouted(w, r, handler))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// unrouted returns why a request has no route. The mux's own handler knows whether the path or
// only the method is wrong, but says so in text, and answers a path that is not clean with a
// redirect, which would lead away from the stage of an HTTP API.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, verdict http.Handler) error {
	said := &headOnly{header: http.Header{}}
	verdict.ServeHTTP(said, r)
	if said.status != http.StatusMethodNotAllowed {
		return fmt.Errorf("%w: expected a path of this API, got %q", errNoRoute, r.URL.Path)
	}
	w.Header().Set("Allow", said.header.Get("Allow"))
	return fmt.Errorf("%w: expected %s, got %s", errMethod, said.header.Get("Allow"), r.Method)
}

// headOnly is a ResponseWriter that keeps headers and status and drops the body.
type headOnly struct {
	header http.Header
	status int
}

func (h *headOnly) Header() http.Header            { return h.header }
func (h *headOnly) WriteHeader(status int)         { h.status = status }
func (h *headOnly) Write(body []byte) (int, error) { return len(body), nil }

func (a *api) getHealth(*http.Request) (reply, error) {
	return reply{status: http.StatusOK, body: map[string]string{"status": "ok"}}, nil
}

// machineView is a machine in the answer of GET /machines.
type machineView struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	// Events are the types of the events that the machine takes.
	Events []string `json:"events"`
}

func (a *api) getMachines(*http.Request) (reply, error) {
	views := []machineView{}
	for _, id := range a.machines.IDs() {
		machine, err := a.machines.Lookup(id)
		if err != nil {
			return reply{}, err
		}
		views = append(views, machineView{ID: id, Version: machine.Version(), Events: notNil(machine.Events())})
	}
	return reply{status: http.StatusOK, body: map[string][]machineView{"machines": views}}, nil
}
