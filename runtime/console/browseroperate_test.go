package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestABrowserStopsAnInstance(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.open("instances/order/1")
	b.do(chromedp.Click(chromedp.CSS(`a[href$="/operate/stop"]`)))
	b.until(`document.querySelector("#trial-title") && document.querySelector("#chart-title").textContent === "Chart after the change"`)
	b.w.send("order/1", `{"type": "CALL"}`)
	b.do(chromedp.Focus(chromedp.CSS("#reason")), chromedp.KeyEvent("asked by mail"), chromedp.Click(chromedp.CSS(`[value="operate"]`)))
	b.until(`document.querySelector("#refusal").textContent.includes("has changed since the dry run") && document.querySelector("#reason").value === "asked by mail"`)
	b.until(`[...document.querySelectorAll(".head .chip")].some((chip) => chip.textContent === "mood.busy")`)
	b.forgive() // The browser logs the status of the conflict.
	b.do(chromedp.Click(chromedp.CSS(`[value="operate"]`)))
	b.until(`location.pathname === "/console/instances/order/1" && document.querySelector(".notice").textContent.startsWith("The instance was stopped.")`)
	b.until(`document.querySelector("[data-part=instance-say]").textContent.includes("is stopped") && !document.querySelector('a[href$="/operate/stop"]')`)
	b.until(`document.querySelector("tr[data-number]").innerText.includes("a test user “asked by mail”")`)
	b.clean()
}

func TestABrowserMovesAnInstanceAndSeesItsTimerFire(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.w.fireTimers()
	b.open("instances/order/1/operate/move")
	b.do(chromedp.Focus(chromedp.CSS("#state")), chromedp.KeyEvent("work.soon"))
	b.do(chromedp.Focus(chromedp.CSS(".side form button")), chromedp.KeyEvent("\r"))
	b.until(`location.search === "?state=work.soon" && document.querySelector('.active[data-path="work.soon"]')`)
	b.do(chromedp.Focus(chromedp.CSS(`[value="operate"]`)), chromedp.KeyEvent("\r"))
	b.until(`document.querySelector(".notice").textContent.startsWith("The instance was moved.")`)
	b.until(`document.querySelector('.active[data-path="work.cancelled"]') && document.querySelector('.taken[data-from="work.soon"][data-to="work.cancelled"]')`)
	b.until(`document.querySelector("tr[data-number]").innerText.includes("1s") && !document.querySelector("[data-countdown]")`)
	b.clean()
}

func TestOperationsAreLegibleInBothThemesAndOnAPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	var pages []string
	for _, operation := range []string{"stop", "terminate", "keep", "move", "move?state=work.packing", "move?state=work.broken"} {
		pages = append(pages, "instances/order/1/operate/"+operation)
	}
	b.areLegible(`document.querySelector("#trial-title, #state-title")`, pages...)
}
