package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// page is the content of a page: the name of its template, and the template's data.
type page struct {
	Name, Title string
	// Parts are the templates whose output changes while the page is open.
	Parts  []string
	Data   any
	Status int
}

// view is the data of the templates: a page in its frame.
type view struct {
	*page
	*console
	Now    time.Time
	Parked parkedCount
	// LiveURL is the address of the page's stream, or empty.
	LiveURL string
	// Cost is the cost of following the page, or empty if it is unknown.
	Cost string
}

// problem is an error that has its own page.
type problem struct {
	status        int
	what, details string
}

func (p *problem) Error() string { return p.what + " " + p.details }

func notFound(what, details string) *problem {
	return &problem{http.StatusNotFound, what, details}
}

// problemOf returns the page for an error.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, durable.ErrUnreadable):
		return &problem{http.StatusInternalServerError, "This build cannot read the instance.",
			err.Error() + ". Deploy a build that can read it, or repair the item: settle check lists all such instances."}
	case errors.Is(err, durable.ErrDenied):
		return &problem{http.StatusBadGateway, "AWS denied the read.", err.Error()}
	default:
		return &problem{http.StatusBadGateway, "The store cannot be read.", err.Error()}
	}
}

func (c *console) servePage(w http.ResponseWriter, r *http.Request, path string) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	query := r.URL.Query()
	build, err := c.find(path, query)
	if err != nil {
		c.serveProblem(w, r, err)
		return
	}
	p, err := build(ctx)
	if err != nil {
		c.serveProblem(w, r, err)
		return
	}
	v := c.view(ctx, p)
	query.Del("at")
	query.Del("changed")
	query.Del("proof")
	if query.Del("sent"); isFollowed(path, query) {
		v.LiveURL = c.Prefix + "/live/" + path
		if len(query) > 0 {
			v.LiveURL += "?" + query.Encode()
		}
	}
	c.write(w, v)
}

func (c *console) serveProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	c.write(w, c.view(r.Context(), &page{Name: "problem", Title: p.what, Data: p.details, Status: p.status}))
}

func (c *console) view(ctx context.Context, p *page) *view {
	return &view{page: p, console: c, Now: c.Now().UTC(), Parked: c.countParked(ctx)}
}

// write writes a whole page. It writes nothing until the template has succeeded.
func (c *console) write(w http.ResponseWriter, v *view) {
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, v.Name, v); err != nil {
		http.Error(w, "rendering the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(v.Status, http.StatusOK))
	_, _ = w.Write(b.Bytes()) // If this fails, the client has disconnected.
}

// parts renders the parts of the page and of its frame that may change.
func (c *console) parts(v *view) (map[string]string, error) {
	parts := map[string]string{}
	for _, name := range append([]string{"frame-parked", "frame-cost"}, v.Parts...) {
		var b strings.Builder
		if err := c.templates.ExecuteTemplate(&b, name, v); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", name, err)
		}
		parts[name] = b.String()
	}
	return parts, nil
}

func (c *console) parseTemplates() *template.Template {
	functions := template.FuncMap{
		"machineURL": c.machineURL, "instanceURL": c.instanceURL, "eventURL": c.eventURL, "operationURL": c.operationURL, "parkedURL": c.parkedURL, "stateURL": c.stateURL, "filterURL": c.filterURL, "listURL": c.listURL, "bulkURL": c.bulkURL, "jobURL": c.jobURL, "asset": c.assetURL,
		"clock": clock, "stamp": stamp, "full": full, "json": asJSON, "last": lastSegment, "duration": duration, "plural": plural,
		"list": func(values ...any) []any { return values },
	}
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
}

func (c *console) machineURL(machine string) string {
	return c.Prefix + "/machines/" + url.PathEscape(machine)
}

// instanceURL returns the address of the instance with the name machine/id.
func (c *console) instanceURL(name string) string {
	machine, id, _ := strings.Cut(name, "/")
	return c.Prefix + "/instances/" + url.PathEscape(machine) + "/" + url.PathEscape(id)
}

// stateURL returns the address of the list of instances in a state.
func (c *console) stateURL(machine, state string) string {
	return c.listURL(selection{Machine: machine}, "state", state)
}

// filterURL returns the address of the list of failed or stuck instances.
func (c *console) filterURL(machine, only string) string {
	return c.listURL(selection{Machine: machine}, "only", only)
}

// clock returns the time of day with milliseconds.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// stamp is the machine-readable form of a time, for the attributes of elements.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// full is a time with its date and zone.
func full(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// asJSON returns the JSON of a value for an attribute. html/template escapes it.
func asJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// lastSegment returns the ID of the state with the path.
func lastSegment(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// duration returns a short text such as "250 ms" or "5 s".
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	default:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
