package console_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// needBrowser says how to get a browser for the tests in this file.
const needBrowser = "the tests of the console need Chrome or Chromium: apt-get install chromium, brew install --cask chromium, or https://www.google.com/chrome/"

// browser is a tab that shows the console of a world.
type browser struct {
	t    *testing.T
	ctx  context.Context
	w    *world
	http *httptest.Server

	mu sync.Mutex
	// logged contains the warnings and errors in the console of the browser.
	logged []string
}

// newBrowser starts a browser, a consumer and a console. If this computer has no browser, it fails the test under
// CI=true and skips it otherwise.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	return newBrowserOf(t, func() *world { return newWorld(t, nil) })
}

// newBrowserOf is newBrowser for another world.
func newBrowserOf(t *testing.T, begin func() *world) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: make check and make test-browser run the tests that start a browser")
	}
	b := &browser{t: t, w: begin()}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	switch err := chromedp.Do(b.ctx); {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true":
		t.Skip("no browser on this machine, and CI=true is not set: " + needBrowser)
	case errors.Is(err, exec.ErrNotFound):
		t.Fatal(needBrowser)
	case err != nil:
		t.Fatal(err)
	}
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type != "debug" && m.Type != "info" {
				b.mu.Lock()
				b.logged = append(b.logged, m.String())
				b.mu.Unlock()
			}
		}
	}()
	b.http = httptest.NewServer(b.w.handler)
	t.Cleanup(func() { b.http.CloseClientConnections(); b.http.Close() })
	return b
}

// do runs steps in the tab. A step waits for its element, but not forever. If a live update or the next page replaces
// the element before the step uses it, do starts over.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	for {
		err := chromedp.Do(ctx, steps...)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") {
			b.t.Fatal(err)
		}
	}
}

// followed is a JavaScript expression. It is true if the page follows the store, or if the page has no live updates.
const followed = `!document.body.dataset.live || document.querySelector("#status").dataset.state === "good"`

// open opens a page. If the page has live updates, open waits until it follows the store.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.http.URL + "/console/" + path))
	b.until(followed)
}

// until waits until an expression is true in the page, which may still be loading.
func (b *browser) until(expression string) {
	b.t.Helper()
	wait := `new Promise((resolve) => {
		const end = performance.now() + 5000;
		const holds = () => { try { return (` + expression + `); } catch { return false; } };
		const look = () => { const is = holds(); is || performance.now() > end ? resolve(!!is) : setTimeout(look, 20); };
		look();
	})`
	var failed error
	for range 4 { // If the browser leaves the page, the wait fails with an error.
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise))
		if is {
			return
		}
		failed = err
	}
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	b.t.Fatalf("waited in vain for %s: %v\n%s", expression, failed, text)
}

// get returns the value of an expression in the page.
func get[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// theme selects the light or the dark theme.
func (b *browser) theme(name string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
}

// legible opens all details of the page, and checks the contrast of its text.
func (b *browser) legible(page string) {
	b.t.Helper()
	script, err := os.ReadFile("testdata/contrast.js")
	if err != nil {
		b.t.Fatal(err)
	}
	get[any](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; }), null`)
	found := get[[]string](b, string(script))
	if len(found) == 0 || found[0] != "checked" {
		b.t.Fatalf("%s: expected some texts, got %v", page, found)
	}
	if len(found) > 1 {
		b.t.Errorf("%s: too little contrast:\n%s", page, strings.Join(found[1:], "\n"))
	}
}

// fits checks that the page is not wider than the screen, and that its panels use the full width of a phone.
func (b *browser) fits(page string, width int64) {
	b.t.Helper()
	if got := get[int64](b, `document.documentElement.scrollWidth`); got > width {
		b.t.Errorf("%s: the page is %d pixels wide on a screen of %d", page, got, width)
	}
	narrowest := get[float64](b, `Math.min(...[...document.querySelectorAll(".panel"), document.querySelector("main")].map((panel) => panel.getBoundingClientRect().width))`)
	if width < 600 && narrowest < 0.9*float64(width) {
		b.t.Errorf("%s: a panel is %v pixels wide on a screen of %d", page, narrowest, width)
	}
}

// forgive clears the browser's log, for example after a page that is expected to fail.
func (b *browser) forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logged = nil
}

// areLegible checks pages in both themes, on a phone and on a desktop. A page is ready when `ready` is true.
func (b *browser) areLegible(ready string, pages ...string) {
	b.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		for _, page := range pages {
			for _, width := range []int64{390, 1440} {
				b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(b.http.URL+"/console/"+page))
				b.until(ready)
				b.fits(page, width)
			}
			b.legible(page + ", " + theme)
		}
	}
	b.forgive() // Some pages report errors, and the browser logs their status.
}

// clean checks that the browser has logged no warning and no error.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.logged) > 0 {
		b.t.Errorf("the browser has logged:\n%s", strings.Join(b.logged, "\n"))
	}
	b.logged = nil
}

func TestABrowserFollowsAnInstance(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/console/machines/order"]`)))
	b.until(`document.querySelector(".badge .count")?.textContent === "1"`)
	b.do(chromedp.Click(chromedp.CSS(`.state[data-path="work.waiting"]`)))
	b.until(`new URL(location).searchParams.get("state") === "work.waiting" && document.querySelector('.selected[data-path="work.waiting"]')`)
	b.do(chromedp.Click(chromedp.CSS(`a[href="/console/instances/order/1"]`)))
	b.until(`document.querySelector('.active[data-path="work.waiting"]') && document.querySelector("#status").dataset.state === "good"`)
	b.until(`/^\d\d:\d\d:\d\d$/.test(document.querySelector("[data-countdown]").textContent)`)

	b.w.send("order/1", `{"type": "CALL"}`)
	b.until(`document.querySelector('[data-leaf="/calls"].changed .number')?.textContent === "1"`)
	b.until(`document.querySelector('.active[data-path="mood.busy"]') && !document.querySelector('.active[data-path="mood.calm"]')`)
	b.until(`document.querySelector('.taken[data-from="mood.calm"] .taken[data-event="CALL"]')`)
	b.w.send("order/1", `{"type": "CANCEL"}`)
	b.until(`document.querySelector("[data-part=instance-say]").textContent === "The instance is in work.cancelled and mood.busy."`)
	b.until(`document.querySelector('.taken[data-to="work.cancelled"]')`)
	b.w.send("order/1", `{"type": "NOPE"}`)
	b.until(`document.querySelector("header .count")?.textContent === "1"`)
	b.do(chromedp.Click(chromedp.CSS(`a[href="/console/parked"]`)))
	b.until(`document.querySelector(".parked h2").textContent.includes("NOPE")`)
	b.clean()
}

func TestABrowserFilters(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for _, name := range []string{"order/early-1", "order/early-2", "order/late-1"} {
		b.w.send(name, place)
	}
	b.w.send("order/early-2", `{"type": "CANCEL"}`)
	shows := func(names string) {
		t.Helper()
		b.until(`[...document.querySelectorAll(".list th a")].map((a) => a.textContent).sort().join(" ") === "` + names + `"`)
	}
	b.open("machines/order")
	shows("early-1 early-2 late-1")
	b.do(chromedp.Focus(chromedp.CSS(`[name="prefix"]`)), chromedp.KeyEvent("early\r"))
	shows("early-1 early-2")
	b.do(chromedp.Click(chromedp.CSS(`.filters a[href*="only=failed"]`)))
	b.until(`document.querySelector('.filters [aria-current="true"]').textContent === "Failed"`)
	shows("early-2")
	b.do(chromedp.Click(chromedp.CSS(`.state[data-path="work.waiting"]`)))
	b.until(`document.querySelector(".list .empty").textContent === "No instances are failed in work.waiting with an ID that begins with early."`)
	b.do(chromedp.Click(chromedp.CSS(`.filters a[href*="only=stuck"]`)))
	b.until(`document.querySelector(".list .empty").textContent === "No instances are stuck in work.waiting with an ID that begins with early."`)
	b.clean()
}

func TestABrowserSeesATimerFire(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.fireTimers()
	b.w.send("order/1", place)
	b.w.send("order/1", `{"type": "CALL"}`)
	b.w.send("order/1", `{"type": "CALL"}`) // The guard of the first reminder is now false.
	b.open("instances/order/1")
	get[any](b, `window.once = true, null`)
	b.until(`document.querySelector('.active[data-path="work.waiting"]') && /^(00:59:\d\d|01:00:00)$/.test(document.querySelector("[data-countdown]").textContent)`)
	b.w.advance(40 * time.Minute)
	b.until(`/^00:(19:\d\d|20:00)$/.test(document.querySelector("[data-countdown]").textContent)`)
	b.until(`(({ value, max }) => value / max > 0.6 && value / max < 0.8)(document.querySelector("progress"))`)
	b.w.advance(20*time.Minute + time.Second)
	b.until(`document.querySelector('.active[data-path="work.cancelled"]') && !document.querySelector('.active[data-path="work.waiting"]')`)
	b.until(`document.querySelector('.taken[data-from="work.waiting"][data-to="work.cancelled"]') && !document.querySelector("[data-countdown]")`)
	b.until(`document.querySelector("tr[data-number]").innerText.includes("reminder") && document.querySelector(".head .chips").innerText.includes("work.cancelled")`)
	if !get[bool](b, `window.once === true`) {
		t.Error("expected the page not to be loaded again")
	}
	b.clean()
}

func TestABrowserReconnects(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("instances/order/1")
	b.clean()
	address := b.http.Listener.Addr().String()
	if said := get[string](b, `document.querySelector("#connection").textContent`); said != "" || get[bool](b, `!!document.querySelector("#status[role]")`) {
		t.Errorf("expected no announcement before the connection is lost, got %q", said)
	}
	b.http.CloseClientConnections()
	b.http.Close()
	b.until(`document.querySelector("#status").textContent === "reconnecting" && document.querySelector("#connection").textContent === "reconnecting"`)
	b.w.send("order/1", `{"type": "CANCEL"}`)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	b.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: b.w.handler}}
	b.http.Start()
	b.until(`document.querySelector("#status").dataset.state === "good" && document.querySelector('.active[data-path="work.cancelled"]')`)
	b.until(`document.querySelector("#connection[role=status]").textContent === "following again"`)
}

func TestABrowserTravelsInTime(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.w.send("order/1", `{"type": "CANCEL"}`)
	b.open("instances/order/1")
	active := func(path string) { b.until(`document.querySelector('.active[data-path="` + path + `"]')`) }
	active("work.cancelled")
	b.do(chromedp.KeyEvent("["))
	active("work.waiting")
	b.do(chromedp.KeyEvent("["))
	active("work.packing")
	b.until(`location.search === "?at=1" && document.querySelector("#at").textContent === "after transition 1" && !document.querySelector('.taken[data-to="work.cancelled"]')`)
	b.open("instances/order/1?at=1") // The address alone selects the transition.
	active("work.packing")
	b.do(chromedp.KeyEvent("]"))
	active("work.waiting")
	key := func(key, modifiers string) {
		get[any](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {bubbles: true, key: "`+key+`", `+modifiers+`})), null`)
	}
	key("[", `ctrlKey: true`) // This is a shortcut of the browser.
	key("[", `ctrlKey: true, altKey: true, modifierAltGraph: true`)
	active("work.packing")
	key("]", `altKey: true`) // Option on macOS.
	active("work.waiting")
	key("[", `metaKey: true`)
	b.do(chromedp.Click(chromedp.CSS(`[data-step="now"]`)))
	active("work.cancelled")
	b.until(`document.querySelector('tr[data-number="2"]')`)
	b.do(chromedp.Focus(chromedp.CSS(`tr[data-number="1"] a`)))
	b.until(`document.querySelector('.hot[data-to="work.packing"] .hot[data-event="PLACE"]')`)
	b.clean()
}

func TestALiveUpdateKeepsTheFocus(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", `{"type": "PLACE", "text": "two apples", "tags": {"a": 1}}`)
	b.open("instances/order/1")
	b.do(chromedp.Focus(chromedp.CSS(`[data-key="/tags"] > summary`)))
	get[any](b, `document.activeElement.old = true, null`)
	b.w.send("order/1", `{"type": "CALL"}`)
	b.until(`document.querySelector('[data-leaf="/calls"].changed') && document.activeElement.matches('[data-key="/tags"] > summary') && !document.activeElement.old`)
	b.clean()
}

func TestTheKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("machines/order")
	b.do(chromedp.KeyEvent("\t"))
	b.until(`document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().width > 50`)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.activeElement.id === "main"`)
	b.until(`document.querySelector("svg.chart").getAttribute("role") === "group"`) // The role "img" would hide the links from screen readers.
	for range 40 {
		b.do(chromedp.KeyEvent("\t"))
		if get[string](b, `document.activeElement.dataset?.path ?? ""`) == "work.waiting" {
			break
		}
	}
	b.do(chromedp.KeyEvent("\r"))
	b.until(`new URL(location).searchParams.get("state") === "work.waiting"`)
	b.do(chromedp.Focus(chromedp.CSS(".find input")), chromedp.KeyEvent("order/1\r"))
	b.until(`location.pathname === "/console/instances/order/1"`)
	b.do(chromedp.Focus(chromedp.CSS(".astable summary")), chromedp.KeyEvent("\r"))
	b.until(`document.querySelector(".astable").open && document.querySelector("tbody.active th").textContent.includes("work")`)
	b.clean()
}

func TestPagesAreLegibleInBothThemesAndOnAPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.w.send("order/1", `{"type": "CALL"}`)
	b.w.send("order/1", `{"type": "PLACE"}`)
	b.w.send("order/1", `{"type": "NOPE"}`)
	b.w.send("order/a_rather_long_name_of_an_order_that_fits_no_phone:2026_11_22", place)
	sent := b.w.post("instances/order/1/events/CALL", with("do", "send"), nil).Header().Get("Location")
	b.areLegible(followed, append(paths, "parked", "nope", "instances/order/1/events/CALL", strings.TrimPrefix(sent, "/console/"), "instances/order/a_rather_long_name_of_an_order_that_fits_no_phone:2026_11_22")...)
}
