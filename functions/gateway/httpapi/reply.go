package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// reply is what a route answers with.
type reply struct {
	status int
	// etag is sent as the ETag, in its quotes; empty means none.
	etag string
	// body is sent as JSON; nil means no body.
	body any
}

// endpoint is the handler of one route.
type endpoint struct {
	api *api
	// serve answers a request or says why not, with an error that problems classifies.
	serve func(r *http.Request) (reply, error)
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.serve(r)
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

// Reasons why the API refuses a request, beside those of durable and statechart.
var (
	errNoRoute         = errors.New("no such route")
	errMethod          = errors.New("method not allowed")
	errUnknownInstance = errors.New("unknown instance")
	errUnknownAlias    = errors.New("unknown alias")
	errNoCallback      = errors.New("no callback is expected here")
	errCallback        = errors.New("not a callback")
	errExpired         = errors.New("nobody waits for this callback any more")
	errProcessed       = errors.New("the callback has been taken already")
	errEarly           = errors.New("the job is not stored yet: call back again in a moment")
	errMediaType       = errors.New("unsupported media type")
	errTooLarge        = errors.New("too large")
	errBody            = errors.New("unreadable request")
	errEventID         = errors.New("bad event ID")
	errSignature       = errors.New("bad signature")
	errWebhook         = errors.New("not a webhook of GitHub's")
	errUnsigned        = errors.New("webhooks are refused: no secret is configured to check their signatures with; set one here and at GitHub")
	errQueue           = errors.New("the queue did not confirm the event: send it again, with the same Idempotency-Key if it must count once")
	errReserve         = errors.New("the event's ID could not be reserved, and nothing was queued: send the event again, with the same Idempotency-Key")
	errStore           = errors.New("the instance could not be read: try again")
	errPanic           = errors.New("the request could not be handled; the log says why")
)

// problems maps errors to statuses: the only place that does. The code is what clients
// decide by; it never changes.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{errNoRoute, http.StatusNotFound, "no_route"},
	{errMethod, http.StatusMethodNotAllowed, "method"},
	{durable.ErrUnknownMachine, http.StatusNotFound, "unknown_machine"},
	{durable.ErrInstanceID, http.StatusBadRequest, "instance_id"},
	{errUnknownInstance, http.StatusNotFound, "unknown_instance"},
	{errUnknownAlias, http.StatusNotFound, "unknown_alias"},
	{errNoCallback, http.StatusNotFound, "unknown_callback"},
	{errExpired, http.StatusGone, "expired"},
	{errProcessed, http.StatusConflict, "already_processed"},
	{dynamostore.ErrIDReused, http.StatusConflict, "id_reused"},
	{errEarly, http.StatusServiceUnavailable, "early"},
	{errMediaType, http.StatusUnsupportedMediaType, "media_type"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{errBody, http.StatusBadRequest, "unreadable"},
	{errEventID, http.StatusBadRequest, "event_id"},
	{errSignature, http.StatusUnauthorized, "signature"},
	{errWebhook, http.StatusBadRequest, "webhook"},
	{job.ErrWebhook, http.StatusBadRequest, "webhook"},
	{errCallback, http.StatusBadRequest, "callback"},
	{durable.ErrReserved, http.StatusBadRequest, "reserved"},
	{statechart.ErrNotAnEvent, http.StatusBadRequest, "not_an_event"},
	{statechart.ErrUndeclared, http.StatusBadRequest, "undeclared_event"},
	{statechart.ErrPayload, http.StatusBadRequest, "payload"},
	{errUnsigned, http.StatusServiceUnavailable, "no_webhook_secret"},
	{errQueue, http.StatusServiceUnavailable, "queue"},
	{errReserve, http.StatusServiceUnavailable, "store"},
	{errStore, http.StatusServiceUnavailable, "store"},
}

// retryAfterSeconds is how long a client should wait when the queue or the store fails, or when it is
// early. The SDK has tried for longer than that already.
const retryAfterSeconds = 1

// problem is a refusal as RFC 9457 writes it; its type is about:blank, the code tells kinds
// of problems apart.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// problemOf classifies an error. The text of an error of ours goes to the client whole; of
// one that has its cause behind the API the client learns the kind only.
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
	return problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError, Code: "internal", Detail: errPanic.Error()}
}

// refuse answers with the problem that the error is, and logs it. The log has the text of an
// error only where its cause is ours: a client's error may quote what the client sent.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	log := a.config.Logger.With("route", r.Pattern, "status", p.Status, "code", p.Code)
	if p.Status >= http.StatusInternalServerError {
		log.ErrorContext(r.Context(), "request failed", "error", err)
	} else {
		log.InfoContext(r.Context(), "request refused")
	}
	if errors.Is(err, errQueue) || errors.Is(err, errReserve) || errors.Is(err, errStore) || errors.Is(err, errEarly) {
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

// write answers with JSON. It is the last thing done for a request; a client that is gone by
// then does not miss the answer.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
