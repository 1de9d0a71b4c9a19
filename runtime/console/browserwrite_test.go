package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestABrowserSendsAnEventFromAForm(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("instances/order/1")
	b.do(chromedp.Click(chromedp.CSS(`a[href$="/events/CALL"]`)))
	b.until(`document.querySelector('.active[data-path="work.waiting"]') && document.querySelector("#form-title")`)
	b.do(chromedp.Focus(chromedp.CSS(`[name="payload.notes"]`)), chromedp.KeyEvent(`{"a": "x"}`), chromedp.Click(chromedp.CSS(`[value="send"]`)))
	b.until(`document.querySelector("#refusal").textContent.includes("notes") && document.querySelector('[aria-invalid]').name === "payload.notes"`)
	b.until(`document.querySelector('[name="payload.notes"]').value === '{"a": "x"}'`)
	b.forgive() // The browser logs the status of the refusal.
	get[any](b, `document.querySelector('[name="payload.notes"]').value = '{"a": 1}', null`)
	b.do(chromedp.Click(chromedp.CSS(`[value="send"]`)))
	b.until(`location.pathname === "/console/instances/order/1" && document.querySelector(".notice").textContent.startsWith("The event was sent")`)
	b.until(`document.querySelector('.active[data-path="mood.busy"]') && document.querySelector('[data-leaf="/calls"] .number').textContent === "1"`)
	b.clean()
}

func TestABrowserTriesAnEvent(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("instances/order/1/events/CANCEL")
	b.do(chromedp.Click(chromedp.CSS(`[value="try"]`)))
	b.until(`document.querySelector('.active[data-path="work.cancelled"]') && document.querySelector('.taken[data-to="work.cancelled"]')`)
	b.until(`document.querySelector("[data-copy]").hidden === false && document.querySelector("[data-copy]").dataset.copy === "settle send order/1 CANCEL"`)
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.legible("the trial, " + theme)
	}
	get[any](b, `navigator.clipboard.writeText = async (text) => { window.copied = text; }, null`)
	b.do(chromedp.Click(chromedp.CSS("[data-copy]")))
	b.until(`window.copied === "settle send order/1 CANCEL" && document.querySelector("[data-copy]").textContent === "Copied"`)
	b.open("instances/order/1")
	b.until(`document.querySelector('.active[data-path="work.waiting"]')`)
	b.clean()
}

func TestABrowserRedrivesAParkedEvent(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	id := b.w.park("order/1", `{"type": "CALL"}`)
	b.open("parked")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/console/parked/` + id + `"]`)))
	b.until(`document.querySelector(".tree .string").textContent === '"CALL"'`)
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.legible("the confirmation, " + theme)
	}
	b.do(chromedp.Click(chromedp.CSS(`[value="redrive"]`)))
	b.until(`location.pathname === "/console/parked" && document.querySelector(".notice").textContent.includes("` + id + `") && !document.querySelector(".parked")`)
	b.open("instances/order/1")
	b.until(`document.querySelector('.active[data-path="mood.busy"]') && document.querySelector('[data-leaf="/calls"] .number').textContent === "1"`)
	b.clean()
}
