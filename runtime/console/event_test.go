package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/producer"
)

// with returns the values of a form.
func with(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}

func TestAFormSendsAnEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		contains(t, w.page("instances/order/1", 0), `href="/console/instances/order/1/events/CALL"`)
		contains(t, textOf(w.page("instances/order/1/events/CALL", 0)), "CALL to order/1", "accepted now", "loud boolean", "at time", "notes JSON")
		sent := w.post("instances/order/1/events/CALL", with("do", "send", "id", "c-1", "payload.loud", "true", "payload.at", "2026-01-02T15:04:05Z", "payload.notes", ` {"a": 1} `), nil)
		next, ok := strings.CutPrefix(sent.Header().Get("Location"), "/console/")
		if sent.Code != http.StatusSeeOther || !ok || !strings.Contains(next, "&sent=") {
			t.Fatalf("got %d to %q:\n%s", sent.Code, next, textOf(sent.Body.String()))
		}
		w.applied("CALL")
		page := w.page(next, 0)
		contains(t, textOf(page), "The event was sent as message ", "calls 1", "mood.busy")
		contains(t, page, `data-live="/console/live/instances/order/1"`)

		again := w.post("instances/order/1/events/CALL", with("do", "send", "id", "c-1", "payload.loud", "true"), nil)
		if again.Code != http.StatusConflict {
			t.Errorf("got %d for a reused ID", again.Code)
		}
		contains(t, textOf(again.Body.String()), "nothing was sent: use another ID")
		w.applied("nothing")
		contains(t, textOf(w.page("instances/order/1", 0)), "calls 1")
	})
}

func TestAFormSaysWhyAnEventIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		for _, c := range []struct {
			event, key, value string
			status            int
			want              string
		}{
			{"CALL", "payload.at", "yesterday", 422, "at"},
			{"CALL", "payload.notes", `{"a": "x"}`, 422, `"notes.*"`},
			{"CALL", "payload.notes", `{"a": 1} 2`, 422, "notes: expected JSON: got more than one value"},
			{"PLACE", "payload.calls", "1.5", 422, "calls"},
			{"PLACE", "payload.calls", "many", 422, "calls: expected number"},
			{"TAG", "payload.", "null", 422, "got null"},
			{"PLACE", "id", strings.Repeat("x", producer.EventIDBytesMax+1), 422, "expected at most 256 bytes"},
			{"PLACE", "payload.text", strings.Repeat("x", producer.EventBytesMax+1), 413, "too large"},
			{"PLACE", "payload.text", strings.Repeat("x", 4*producer.EventBytesMax), 413, "The form is too large"},
		} {
			got := w.post("instances/order/1/events/"+c.event, with("do", "send", c.key, c.value), nil)
			if got.Code != c.status {
				t.Errorf("%.40v: got status %d, want %d", c, got.Code, c.status)
			}
			contains(t, textOf(got.Body.String()), c.want)
			if marked := strings.Contains(got.Body.String(), "aria-invalid"); marked != (c.status == 422 && c.key != "id") {
				t.Errorf("%.40v: the field is marked: %v", c, marked)
			}
		}
		w.send("order/1", `{"type": "CANCEL"}`)
		w.page("instances/order/1/events/NOPE", 404)
		w.page("instances/order/none/events/PLACE", 404)
		w.applied("nothing")
		contains(t, textOf(w.page("instances/order/1", 0)), "3 kept of 3")
	})
}

func TestPostsNeedTheTokenAndTheOrigin(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		const path = "instances/order/1/events/CANCEL"
		token := w.tokenOf(path)
		origin := func(from string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Origin", from) }
		}
		for name, c := range map[string]struct {
			path   string
			values url.Values
			change func(*http.Request)
			status int
		}{
			"no token":         {path, with("do", "send", "token", ""), nil, 403},
			"a wrong token":    {path, with("do", "send", "token", strings.ToLower(token)), nil, 403},
			"a foreign origin": {path, with("do", "send"), origin("https://evil.example"), 403},
			"a foreign host":   {path, with("do", "send"), func(r *http.Request) { r.Host = "evil.example" }, 403},
			"no form":          {"instances/order/1", with("do", "send", "token", token), nil, 405},
			"DELETE":           {path, with("do", "send"), func(r *http.Request) { r.Method = http.MethodDelete }, 405},
			"the query":        {path + "?token=" + token, with("do", "send", "token", ""), nil, 403},
		} {
			got := w.post(c.path, c.values, c.change)
			if got.Code != c.status {
				t.Errorf("%s: got status %d, want %d:\n%s", name, got.Code, c.status, got.Body)
			}
			if want := map[string]string{"no form": "GET, HEAD", "DELETE": "GET, HEAD, POST"}[name]; got.Header().Get("Allow") != want {
				t.Errorf("%s: got the methods %q, want %q", name, got.Header().Get("Allow"), want)
			}
		}
		refused := w.post(path, with("token", "x"), nil)
		contains(t, textOf(refused.Body.String()), "The form is not of this console. Nothing was changed.")
		w.page(path+"?do=send&token="+token, 0) // GET never writes.
		w.applied("nothing")
		contains(t, textOf(w.page("instances/order/1", 0)), "work.waiting mood.calm")
		if got := w.post(path, with("do", "send"), origin("http://localhost")); got.Code != http.StatusSeeOther {
			t.Errorf("the own origin: got %d", got.Code)
		}
	})
}

func TestAReadOnlyConsoleRefusesAllForms(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.Write = nil }, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.page("instances/order/1/events/CALL", 404)
		w.page("instances/order/1/operate/stop", 404)
		for _, path := range append(paths, "parked", "instances/order/1/events/CALL", "instances/order/1/operate/stop") {
			if got := w.post(path, with("do", "send", "token", ""), nil); got.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: got %d", path, got.Code)
			}
			if page := w.call(path, nil).Body.String(); strings.Contains(page, `method="post"`) || strings.Contains(page, "/events/") || strings.Contains(page, "/operate/") {
				t.Errorf("%s offers a form", path)
			}
		}
	})
}

func TestALinkOfSomebodyElseShowsNoNotice(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		w.send("order/2", place)
		sent := w.post("instances/order/1/events/CALL", with("do", "send"), nil).Header().Get("Location")
		w.applied("CALL")
		if _, text, _ := w.confirm("keep"); !strings.Contains(text, "changed=keep&proof=") {
			t.Errorf("got the location %q", text)
		}
		sent = strings.TrimPrefix(sent, "/console/")
		contains(t, w.page(sent, 0), `class="notice"`)
		for _, link := range []string{
			"instances/order/1?sent=m-1", "instances/order/1?changed=stop&proof=", "parked?redriven=1", "parked?dropped=1",
			strings.Replace(sent, "order/1", "order/2", 1), strings.Replace(sent, "sent=", "changed=", 1), sent + "1",
		} {
			if strings.Contains(w.page(link, 0), `class="notice"`) {
				t.Errorf("%s shows a notice", link)
			}
		}
	})
}

func TestFormsEscapeHostileValues(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		const hostile = `"><script>alert(1)</script><textarea>'` + "\x00"
		page := w.post("instances/order/1/events/PLACE", with("do", "try", "id", hostile, "payload.text", hostile, "payload.calls", hostile), nil).Body.String()
		page += w.post("instances/order/1/events/CALL", with("do", "try", "payload.loud", hostile, "payload.notes", "</textarea>"+hostile), nil).Body.String()
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "</textarea>\"") {
			t.Errorf("a value is not escaped:\n%s", page)
		}
		contains(t, page, "&lt;script&gt;alert(1)")
	})
}
