// Package gateway serves Settle over HTTP. It sends events to instances, shows instances, and accepts the webhooks and
// callbacks of third parties.
//
//	POST /instances/{machine}/{id}/events  send an event; 202 once it is queued
//	POST /aliases/{alias}/events           send an event to the instance with an alias
//	GET  /instances/{machine}/{id}         show an instance as last stored
//	GET  /aliases/{alias}                  show the instance with an alias
//	GET  /machines                         list the machines and the events they accept
//	POST /webhooks/{name}                  receive a signed webhook of a third party
//	POST /webhooks/{provider}/{id}/{until}/{key}
//	                                       receive the callback of a third party, once
//	GET  /openapi.json                     show the OpenAPI document of this API, with the payloads of its machines
//	GET  /healthz                          200 while the process is running
//
// An event is validated before it is queued. An invalid event fails the request with a reason instead of being parked later.
// Status 202 means that the event is queued, not that the instance has applied it. With ?wait=settled&timeout=10s, both
// routes for events wait until the instance has applied the event and is settled. They answer 200 with the instance, or 202
// if the time runs out. A wait reads the instance once before the event is queued, and then up to about 20 times.
//
// An event with an ID is applied once, however often it is sent. The ID is the Idempotency-Key header or the event's key
// "$id". If the ID was used for a different event, the request fails with 409 and nothing is queued. Events without an ID are
// never deduplicated: two RESEND in a row are two events. A client that retries after a lost answer must send an ID.
//
// If the backlog of the instance is older than durable.MachineConfig.BacklogAgeMax, both routes for events answer 429
// with Retry-After, and nothing is queued. Webhooks and callbacks are queued anyway.
//
// Errors are problem details (RFC 9457) with an additional code. The handler does not authenticate users: put an API Gateway
// authorizer, IAM or a proxy in front of it. Only the webhooks may be public, because the handler checks their signature or
// address.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
)

// Limits on input.
const (
	// CallbackBytesMax limits the event of a callback. The table stores the event with its alias, in an item of at most
	// 400 KB.
	CallbackBytesMax = 256 << 10
	// WebhookBytesMax limits the body of a webhook. It is the largest request that Lambda accepts (AWS Lambda Developer
	// Guide, "Lambda quotas"). Only a part of the body is queued.
	WebhookBytesMax = 6 << 20
)

// Store reads instances, redeems aliases and reserves event IDs. *dynamostore.Store implements it.
type Store interface {
	producer.Store
	// Find returns the instance that has the alias or was the last to have it. It returns dynamostore.ErrNoAlias if no
	// instance ever had it.
	Find(ctx context.Context, alias string) (instances.ID, error)
	// Redeem stores the event of a callback with the instance's alias, if it is the first callback; see
	// dynamostore.Redemption. A repeated call with the same `by` returns the same result.
	Redeem(ctx context.Context, alias string, id instances.ID, event json.RawMessage, by string) (dynamostore.Redemption, error)
}

// Config tunes the API. The zero value is useful.
type Config struct {
	// Webhooks are the third parties that send signed requests, keyed by the names in their addresses.
	Webhooks map[string]Webhook
	// Callbacks are the third parties that may call back, keyed by the provider names in their addresses.
	Callbacks map[string]Callback
	// EventBytesMax limits the size of a queued event, including its ID. Defaults to producer.EventBytesMax, the maximum.
	EventBytesMax int
	// Logger logs one line per event and one per rejected request, without bodies, signatures and headers. Defaults to
	// slog.Default.
	Logger *slog.Logger
	// LogDetails adds the reason to the line of a rejected request. The reason may quote the request, so set LogDetails
	// only for development.
	LogDetails bool
	// BasePath is the path below which a custom domain serves the API, such as "/settle" for an API mapping "settle".
	// The API accepts each path with and without it. The OpenAPI document names it as the server. Empty by default.
	BasePath string
	// Now is the clock for the expiry of callback addresses and reserved event IDs. Defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.EventBytesMax = cmp.Or(c.EventBytesMax, producer.EventBytesMax)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate(machines *durable.Machines) error {
	if c.EventBytesMax < 1 || c.EventBytesMax > producer.EventBytesMax {
		return fmt.Errorf("gateway: expected Config.EventBytesMax between 1 and %d, got %d", producer.EventBytesMax, c.EventBytesMax)
	}
	if err := checkBasePath(c.BasePath); err != nil {
		return fmt.Errorf("gateway: Config.BasePath: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Callbacks)) {
		if err := c.Callbacks[name].validate(machines); err != nil {
			return fmt.Errorf("gateway: Config.Callbacks[%q]: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		if webhook := c.Webhooks[name]; webhook.Verify == nil || webhook.Read == nil {
			return fmt.Errorf("gateway: Config.Webhooks[%q]: expected both Verify and Read", name)
		}
	}
	return nil
}

// checkBasePath returns an error unless `base` can be a Config.BasePath: empty, or segments that each start with a
// slash. The first segment must not be one of the API's own, such as "instances".
func checkBasePath(base string) error {
	if base == "" {
		return nil
	}
	if parsed, err := url.Parse(base); err != nil || parsed.Path != base || path.Clean(base) != base || base[0] != '/' || base == "/" {
		return fmt.Errorf("expected a path such as /settle, without a slash at its end, got %q", base)
	}
	first := "/" + strings.Split(base, "/")[1]
	for _, r := range apiRoutes {
		if r.path == first || strings.HasPrefix(r.path, first+"/") {
			return fmt.Errorf("expected a path that does not start like a path of the API, got %q: choose another API mapping", base)
		}
	}
	return nil
}

// withoutBasePath returns the request with the path below `base`. AWS documents that rawPath does not contain the API
// mapping ("Create AWS Lambda proxy integrations for HTTP APIs"), but other proxies leave the path unchanged. So
// withoutBasePath keeps a path that does not start with `base`.
func withoutBasePath(r *http.Request, base string) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.Path, base)
	if base == "" || !ok || !strings.HasPrefix(rest, "/") {
		return r
	}
	target := *r.URL
	target.Path, target.RawPath = rest, strings.TrimPrefix(r.URL.RawPath, base)
	stripped := *r
	stripped.URL = &target
	return &stripped
}

// api is the handler that New returns. It has no state between requests.
type api struct {
	machines *durable.Machines
	producer *producer.Producer
	store    Store
	config   Config
	mux      *http.ServeMux
	// openAPI returns the OpenAPI document. It builds the document on first use, so that the process starts quickly.
	openAPI func() ([]byte, error)
}

// New returns the handler of the API. Events go to `queue`, and instances come from `store`. The handler is safe for
// concurrent use and runs in a server or in Lambda.
func New(machines *durable.Machines, queue producer.Queue, store Store, config Config) (http.Handler, error) {
	config = config.withDefaults()
	if err := config.validate(machines); err != nil {
		return nil, err
	}
	a := &api{
		machines: machines, producer: producer.New(machines, queue, store, config.Now), store: store, config: config, mux: http.NewServeMux(),
	}
	for _, r := range apiRoutes {
		a.mux.Handle(r.pattern(), endpoint{a, r.serve})
	}
	a.openAPI = sync.OnceValues(a.buildOpenAPI)
	return a, nil
}

// ServeHTTP answers every request with JSON, even if the route is unknown or a payload's code panics.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			// Do not log the panic's value. It may quote the body.
			a.config.Logger.ErrorContext(r.Context(), "panic", "route", r.Pattern, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			a.refuse(w, r, errPanic)
		}
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r = withoutBasePath(r, a.config.BasePath)
	handler, _ := a.mux.Handler(r)
	if _, ok := handler.(endpoint); !ok {
		a.refuse(w, r, a.unrouted(w, r, handler))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// routes lists the routes for clients.
const routes = "POST /instances/{machine}/{id}/events, POST /aliases/{alias}/events, GET /instances/{machine}/{id}, GET /aliases/{alias}, GET /machines, GET /openapi.json, GET /healthz or a path below /webhooks/"

// unrouted returns the reason why a request has no route. It asks the mux whether the method or the path is wrong, but
// does not send the mux's own response. That response is plain text, or redirects an unclean path without the stage of
// an HTTP API.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, verdict http.Handler) error {
	probe := &recorder{header: http.Header{}}
	verdict.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		return fmt.Errorf("%w: expected %s, got %s %q", errNoRoute, routes, r.Method, r.URL.Path)
	}
	w.Header().Set("Allow", probe.header.Get("Allow"))
	advice := ""
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/instances/") { // The ID or /events is missing.
		advice = "; send events to /instances/{machine}/{id}/events"
	}
	return fmt.Errorf("%w: expected %s, got %s%s", errMethod, probe.header.Get("Allow"), r.Method, advice)
}

func (a *api) getHealth(*http.Request) (reply, error) {
	return reply{status: http.StatusOK, body: map[string]string{"status": "ok"}}, nil
}

// machineView is a machine in the response of GET /machines.
type machineView struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	// Events are the types of events that the machine accepts.
	Events []string `json:"events"`
}

func (a *api) getMachines(*http.Request) (reply, error) {
	views := []machineView{}
	for _, id := range a.machines.IDs() {
		machine, err := a.machines.Lookup(id)
		if err != nil {
			return reply{}, err
		}
		views = append(views, machineView{ID: id, Version: machine.Version(), Events: append([]string{}, machine.Events()...)})
	}
	return reply{status: http.StatusOK, body: map[string][]machineView{"machines": views}}, nil
}
