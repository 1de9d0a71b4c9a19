package gateway

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// reply is the result of a route.
type reply struct {
	status int
	// etag is the ETag with its quotes, empty for none.
	etag string
	// body is encoded as JSON, nil for no body.
	body any
}

// endpoint is the handler of one route.
type endpoint struct {
	api *api
	// serve answers a request or returns an error that problems classifies.
	serve func(a *api, r *http.Request) (reply, error)
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.serve(e.api, r)
	var body []byte
	if err == nil && answer.body != nil {
		body, err = json.Marshal(answer.body)
	}
	if err != nil {
		e.api.refuse(w, r, err)
		return
	}
	if answer.etag != "" {
		w.Header().Set("ETag", answer.etag)
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	if body == nil {
		w.WriteHeader(answer.status)
		return
	}
	write(w, answer.status, "application/json", body)
}

// These errors are reasons to reject a request, in addition to the errors of durable and statechart.
var (
	errNoRoute         = errors.New("no such route")
	errMethod          = errors.New("method not allowed")
	errUnknownInstance = errors.New("unknown instance")
	errUnknownAlias    = errors.New("unknown alias")
	errNoCallback      = errors.New("no callback expected here")
	errCallback        = errors.New("not a callback")
	errExpired         = errors.New("callback expired")
	errProcessed       = errors.New("callback already processed")
	errEarly           = errors.New("the job is not stored yet: retry in a moment")
	errMediaType       = errors.New("unsupported media type")
	errBody            = errors.New("unreadable request")
	errSignature       = errors.New("bad signature")
	errWebhook         = errors.New("bad webhook")
	errQueue           = errors.New("the queue did not confirm the event: retry with the same Idempotency-Key")
	errReserve         = errors.New("the event ID could not be reserved and nothing was queued: retry with the same Idempotency-Key")
	errStore           = errors.New("the instance could not be read: retry")
	errQuery           = errors.New("bad query")
	errParked          = errors.New("the event was parked")
	errWatch           = errors.New("the gateway cannot wait for this event and nothing was queued: retry, or send it without wait")
	errPanic           = errors.New("internal error: see the log")
)

// problems is the only mapping of errors to HTTP statuses and error codes. Clients depend on the codes, so a code never
// changes.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{errNoRoute, http.StatusNotFound, "no_route"},
	{errMethod, http.StatusMethodNotAllowed, "method"},
	{durable.ErrUnknownMachine, http.StatusNotFound, "unknown_machine"},
	{instances.ErrID, http.StatusBadRequest, "instance_id"},
	{errUnknownInstance, http.StatusNotFound, "unknown_instance"},
	{errUnknownAlias, http.StatusNotFound, "unknown_alias"},
	{errNoCallback, http.StatusNotFound, "unknown_callback"},
	{errExpired, http.StatusGone, "expired"},
	{errProcessed, http.StatusConflict, "already_processed"},
	{dynamostore.ErrIDReused, http.StatusConflict, "id_reused"},
	{errEarly, http.StatusServiceUnavailable, "early"},
	{errMediaType, http.StatusUnsupportedMediaType, "media_type"},
	{producer.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{errBody, http.StatusBadRequest, "unreadable"},
	{producer.ErrEventID, http.StatusBadRequest, "event_id"},
	{errQuery, http.StatusBadRequest, "query"},
	{errParked, http.StatusConflict, "parked"},
	{producer.ErrBehind, http.StatusTooManyRequests, "behind"},
	{errSignature, http.StatusUnauthorized, "signature"},
	{errWebhook, http.StatusBadRequest, "webhook"},
	{errCallback, http.StatusBadRequest, "callback"},
	{durable.ErrReserved, http.StatusBadRequest, "reserved"},
	{statechart.ErrNotAnEvent, http.StatusBadRequest, "not_an_event"},
	{statechart.ErrUndeclared, http.StatusBadRequest, "undeclared_event"},
	{statechart.ErrPayload, http.StatusBadRequest, "payload"},
	{errWatch, http.StatusServiceUnavailable, "wait"},
	{errQueue, http.StatusServiceUnavailable, "queue"},
	{errReserve, http.StatusServiceUnavailable, "store"},
	{errStore, http.StatusServiceUnavailable, "store"},
}

// retryAfterSeconds is the time that a client should wait after a failure of the queue or the store, or after an early
// callback. A short wait is enough, because the SDK has already retried for a longer time.
const retryAfterSeconds = 1

// problem is an error response as in RFC 9457. Its type is about:blank. The code distinguishes kinds of problems.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// problemOf classifies an error. For a client error, the detail is the full error text. For a server error, it is only
// the kind of error, because the cause may be confidential.
func problemOf(err error) problem {
	for _, known := range problems {
		if !errors.Is(err, known.err) {
			continue
		}
		detail := err.Error()
		if known.status >= http.StatusInternalServerError {
			detail = known.err.Error()
		}
		return problem{Title: http.StatusText(known.status), Status: known.status, Code: known.code, Detail: detail}
	}
	return problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError, Code: internalCode, Detail: errPanic.Error()}
}

// refuse logs the error and answers with its problem. Without Config.LogDetails, the log has the error text only
// for server errors, because a client error may quote the request.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	log := a.config.Logger.With("route", r.Pattern, "status", p.Status, "code", p.Code)
	switch {
	case p.Status >= http.StatusInternalServerError:
		log.ErrorContext(r.Context(), "request failed", "error", err)
	case a.config.LogDetails:
		log.InfoContext(r.Context(), "request refused", "error", err)
	default:
		log.InfoContext(r.Context(), "request refused")
	}
	var behind *producer.BehindError
	if errors.As(err, &behind) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(behind.RetryAfter.Seconds()))))
	} else if errors.Is(err, errQueue) || errors.Is(err, errReserve) || errors.Is(err, errStore) || errors.Is(err, errEarly) || errors.Is(err, errWatch) {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	p.write(w)
}

func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // Strings and a number always marshal.
	}
	write(w, p.Status, "application/problem+json", body)
}

// write answers with JSON. It ignores a write error, because the error means that the client has disconnected.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
