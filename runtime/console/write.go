package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/producer"
)

// Write lets the console change things. Queue and Store are required.
type Write struct {
	// Queue receives the events that forms send. Store reserves their IDs, and stores operations.
	Queue producer.Queue
	Store WriteStore
	// By identifies the operator, such as an ARN. The console records it in the history of each instance that a user
	// stops, terminates, moves, keeps or unkeeps. Without it, the console has no such operations.
	By string
	// Parked redrives and drops parked events. Without it, the console only shows them.
	Parked Parked
	// Command is the start of the command line that sends the same event: settle send with the flags that select Queue
	// and Store. Defaults to "settle send".
	Command string
	// Context ends the running bulk operation between two instances when the server shuts down. Defaults to
	// context.Background().
	Context context.Context
}

// WriteStore is the part of the store that Write needs. *dynamostore.Store implements it. If the table has an index, the
// store must come from dynamostore.NewIndexed.
type WriteStore interface {
	producer.Store
	operations.Store
}

// Parked changes parked events. deadletter.Queues implements it.
type Parked interface {
	// Redrive sends the event to its queue again, and Drop deletes it. Both fail with deadletter.ErrNotOffered if the
	// event cannot be found.
	Redrive(ctx context.Context, messageID string) error
	Drop(ctx context.Context, messageID string) error
}

// formBytesMax limits a posted form. A form may encode each byte of an event as three.
const formBytesMax = 4 * producer.EventBytesMax

// Token returns the secret that each form contains, so that only a page of this process can post a form.
func (c *console) Token() string { return c.token }

// newToken returns a new secret for forms.
func newToken() string { return rand.Text() }

// noticeURL returns the address of a page with a notice about the change that a form made. The address contains a
// proof, so that a link on another site cannot show the notice.
func (c *console) noticeURL(page, kind, value string) string {
	return page + "?" + url.Values{kind: {value}, "proof": {c.proofOf(page, kind, value)}}.Encode()
}

// notice returns the notice in the query of a page, or an empty text if this process did not create it.
func (c *console) notice(page string, query url.Values, kind string) string {
	value := query.Get(kind)
	if !hmac.Equal([]byte(query.Get("proof")), []byte(c.proofOf(page, kind, value))) {
		return ""
	}
	return value
}

func (c *console) proofOf(page, kind, value string) string {
	mac := hmac.New(sha256.New, []byte(c.token))
	_, _ = fmt.Fprintf(mac, "%q %q %q", page, kind, value) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// answer is the result of a posted form: the address of the next page, or a page.
type answer struct {
	location string
	page     *page
}

// servePost serves a posted form. path is the address of the form's page.
func (c *console) servePost(w http.ResponseWriter, r *http.Request, path string) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	var tooLarge *http.MaxBytesError
	switch err := r.ParseForm(); {
	case errors.As(err, &tooLarge):
		c.serveProblem(w, r, &problem{http.StatusRequestEntityTooLarge, "The form is too large.", fmt.Sprintf("Expected at most %d bytes. Nothing was changed.", tooLarge.Limit)})
		return
	case err != nil:
		c.serveProblem(w, r, &problem{http.StatusBadRequest, "The form cannot be read.", err.Error()})
		return
	case subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(c.token)) != 1:
		c.serveProblem(w, r, &problem{http.StatusForbidden, "The form is not of this console.",
			"Nothing was changed. If the console was restarted, load the form's page again. If several processes serve the console, send each browser to one of them."})
		return
	}
	post, err := c.findForm(path)
	if err != nil {
		if problemOf(err).status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD")
		}
		c.serveProblem(w, r, err)
		return
	}
	a, err := post(ctx, r.PostForm)
	switch {
	case err != nil:
		c.serveProblem(w, r, err)
	case a.page != nil:
		c.write(w, c.view(ctx, a.page))
	default:
		http.Redirect(w, r, a.location, http.StatusSeeOther)
	}
}

// findForm returns the function that handles a form of the page at the path.
func (c *console) findForm(path string) (func(context.Context, url.Values) (answer, error), error) {
	segments, err := segmentsOf(path)
	switch {
	case err != nil:
		return nil, err
	case isEvent(segments):
		return func(ctx context.Context, form url.Values) (answer, error) {
			return c.postEvent(ctx, segments[1]+"/"+segments[2], segments[4], form)
		}, nil
	case c.isOperation(segments):
		return func(ctx context.Context, form url.Values) (answer, error) {
			return c.postOperation(ctx, segments[1]+"/"+segments[2], segments[4], form)
		}, nil
	case c.isBulk(segments):
		return func(ctx context.Context, form url.Values) (answer, error) { return c.postBulk(ctx, segments[1], form) }, nil
	case c.isJob(segments):
		return func(ctx context.Context, form url.Values) (answer, error) { return c.postJob(ctx, segments[1], form) }, nil
	case c.isParked(segments):
		return func(ctx context.Context, form url.Values) (answer, error) {
			return c.postParked(ctx, segments[1], form)
		}, nil
	}
	return nil, &problem{http.StatusMethodNotAllowed, "This page has no form.", "Nothing was changed."}
}
