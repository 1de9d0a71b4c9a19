package gateway

import (
	"net/http"
	"slices"
)

// route is a route of the API. The mux and the OpenAPI document are built from the routes.
type route struct {
	method, path string
	serve        func(a *api, r *http.Request) (reply, error)
	// `id` and `summary` become operationId and summary of the operation in the OpenAPI document.
	id, summary string
	// success lists the statuses of answers without an error.
	success []int
	// codes are the codes of the problems that the route may return, besides internalCode.
	codes []string
}

// pattern returns the route's pattern for http.ServeMux.
func (r route) pattern() string { return r.method + " " + r.path }

// internalCode is the code of an unexpected error. Any route may answer with it.
const internalCode = "internal"

// Codes that several routes have.
var (
	eventCodes = []string{"reserved", "not_an_event", "undeclared_event", "payload", "event_id", "too_large", "unreadable", "queue"}
	sendCodes  = append([]string{"media_type", "query", "id_reused", "parked", "behind", "store", "wait"}, eventCodes...)
)

// apiRoutes are the routes of the API.
var apiRoutes = []route{
	{
		http.MethodPost, "/instances/{machine}/{id}/events", (*api).postEvent, "sendEvent", "Send an event to an instance",
		[]int{http.StatusAccepted, http.StatusOK}, append([]string{"unknown_machine", "instance_id"}, sendCodes...),
	},
	{
		http.MethodGet, "/instances/{machine}/{id}", (*api).getInstance, "getInstance", "Show an instance as last stored",
		[]int{http.StatusOK, http.StatusNotModified}, []string{"unknown_machine", "instance_id", "unknown_instance", "store"},
	},
	{
		http.MethodPost, aliasPath, (*api).postAliasEvent, "sendEventByAlias", "Send an event to the instance with an alias",
		[]int{http.StatusAccepted, http.StatusOK}, append([]string{"no_route", "unknown_alias", "unknown_machine"}, sendCodes...),
	},
	{
		http.MethodGet, aliasPath, (*api).getAlias, "getInstanceByAlias", "Show the instance with an alias",
		[]int{http.StatusOK, http.StatusNotModified}, []string{"unknown_alias", "unknown_instance", "store"},
	},
	{http.MethodGet, "/machines", (*api).getMachines, "listMachines", "List the machines and the events they accept", []int{http.StatusOK}, nil},
	{
		http.MethodPost, webhookPath, (*api).postWebhook, "receiveWebhook", "Receive a signed webhook",
		[]int{http.StatusAccepted, http.StatusOK}, append([]string{"no_route", "signature", "webhook", "instance_id", "unknown_machine"}, eventCodes...),
	},
	{
		http.MethodPost, callbackPath, (*api).postCallback, "receiveCallback", "Receive the callback of a third party, once", []int{http.StatusAccepted},
		append([]string{"unknown_callback", "instance_id", "expired", "already_processed", "early", "callback", "media_type", "store"}, eventCodes...),
	},
	{http.MethodGet, "/openapi.json", (*api).getOpenAPI, "getOpenAPI", "Show this document", []int{http.StatusOK, http.StatusNotModified}, nil},
	{http.MethodGet, "/healthz", (*api).getHealth, "getHealth", "Report that the process is running", []int{http.StatusOK}, nil},
}

// These paths contain parameters that the document replaces with values.
const (
	aliasPath    = "/aliases/{alias...}"
	webhookPath  = "/webhooks/{name}"
	callbackPath = "/webhooks/{provider}/{id}/{until}/{key}"
)

// problemsOf returns the codes of the route's problems by status, sorted.
func (r route) problemsOf() map[int][]string {
	byStatus := map[int][]string{http.StatusInternalServerError: {internalCode}}
	for _, p := range problems {
		if slices.Contains(r.codes, p.code) && !slices.Contains(byStatus[p.status], p.code) {
			byStatus[p.status] = append(byStatus[p.status], p.code)
		}
	}
	for _, codes := range byStatus {
		slices.Sort(codes)
	}
	return byStatus
}
