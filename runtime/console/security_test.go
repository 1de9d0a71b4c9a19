package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/console"
)

func TestPagesHaveNoInlineScriptAndNoInlineStyle(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script[^>]*>[^<]|<script(?:[^>s]|s[^r])*>|javascript:|(?:src|href)="(?:https?:)?//`)
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		for _, path := range append(paths, "parked") {
			answer := w.call(path, nil)
			header := answer.Header()
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
				"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s: got %s %q, want %q", path, name, got, want)
				}
			}
			if found := inline.FindString(w.page(path, 0)); found != "" {
				t.Errorf("%s contains %q", path, found)
			}
		}
		asset := regexp.MustCompile(`/console/(assets/[0-9a-f]+/)console.js`).FindStringSubmatch(w.page("", 0))
		for name, kind := range map[string]string{"console.js": "text/javascript; charset=utf-8", "chart.js": "text/javascript; charset=utf-8", "console.css": "text/css; charset=utf-8", "chart.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
			answer := w.call(asset[1]+name, nil)
			if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != kind || answer.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
				t.Errorf("%s: got %d and %v", name, answer.Code, answer.Header())
			}
		}
	})
}

func TestForeignHostsOriginsAndMethodsAreRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, func(c *console.Config) { c.AllowHosts, c.Write = []string{"ops.example.com"}, nil }, func(t *testing.T, w *world) {
		for host, want := range map[string]int{
			"localhost:7388": 200, "127.0.0.1": 200, "[::1]:80": 200, "OPS.example.com": 200, "evil.example": 403, "": 403, "ops.example.com.evil.example": 403, "localhost.evil.example": 403,
		} {
			if got := w.call("", func(r *http.Request) { r.Host = host }).Code; got != want {
				t.Errorf("host %q: got %d, want %d", host, got, want)
			}
		}
		for method, want := range map[string]int{http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
			if got := w.call("", func(r *http.Request) { r.Method = method }).Code; got != want {
				t.Errorf("%s: got %d, want %d", method, got, want)
			}
		}
		foreign := w.call("", func(r *http.Request) {
			r.Method = http.MethodPost
			r.Header.Set("Origin", "https://evil.example")
		})
		if foreign.Code != http.StatusForbidden {
			t.Errorf("a foreign origin: got %d, want 403", foreign.Code)
		}
		for mode, want := range map[string]int{"no-cors": 403, "cors": 403, "navigate": 200} {
			for _, site := range []string{"cross-site", "same-site"} {
				got := w.call("", func(r *http.Request) {
					r.Header.Set("Sec-Fetch-Site", site)
					r.Header.Set("Sec-Fetch-Mode", mode)
				})
				if got.Code != want {
					t.Errorf("%s %s: got %d, want %d", site, mode, got.Code, want)
				}
			}
		}
	})
}

func TestNewRefusesAnIncompleteConfig(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		for want, change := range map[string]func(*console.Config){
			"expected Machines and Store": func(c *console.Config) { c.Store = nil },
			"expected Queue and Store":    func(c *console.Config) { c.Write = &console.Write{} },
			"a Prefix such as /console":   func(c *console.Config) { c.Prefix = "console/" },
		} {
			config := w.config
			change(&config)
			if _, err := console.New(config); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		for _, prefix := range []string{"ops", "/", "/ops/", "//x", "/a//b", "/a?b", "/a#b", "/a b", "/a%2Fb", "/../a", "/a/./b", "/{a}", "/é"} {
			config := w.config
			config.Prefix = prefix
			if _, err := console.New(config); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("expected a Prefix such as /console or /ops/settle, with letters, digits, -, _ and . between slashes, got %q", prefix)) {
				t.Errorf("the prefix %q: got %v", prefix, err)
			}
		}
		for _, host := range []string{"", "*", "*.example.com", "ops.example.com:443", "https://ops.example.com", "ops.example.com/", "a b", ".example.com", "example.com.", "[::1]"} {
			config := w.config
			config.AllowHosts = []string{"ops.example.com", host}
			if _, err := console.New(config); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("without scheme, port and wildcard, got %q", host)) {
				t.Errorf("the host %q: got %v", host, err)
			}
		}
		config := w.config
		config.Prefix, config.AllowHosts = "/ops-1/settle_2.x", []string{"OPS.example.com", "ops", "10.0.0.7", "fd00::1"}
		if _, err := console.New(config); err != nil {
			t.Error(err)
		}
		redirect := w.call("find?instance=order%2F1", nil)
		if redirect.Code != http.StatusSeeOther || redirect.Header().Get("Location") != "/console/instances/order/1" {
			t.Errorf("got %d to %s", redirect.Code, redirect.Header().Get("Location"))
		}
	})
}
