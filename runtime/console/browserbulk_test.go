package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestABrowserStopsTenInstancesByAFilter(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.places(10) // The prefix 0 does not select order/10, but it selects order/010.
	b.w.send("order/010", place)
	b.open("machines/order?prefix=0")
	b.do(chromedp.Click(chromedp.CSS(`a[href*="/bulk?"]`)))
	b.until(`location.pathname === "/console/machines/order/bulk" && document.querySelector(".facts").textContent.endsWith("begins with 0")`)
	b.do(chromedp.Focus(chromedp.CSS("#operation")), chromedp.KeyEvent("Stop"))
	b.do(chromedp.Focus(chromedp.CSS("form.event button")), chromedp.KeyEvent("\r"))
	b.until(`document.querySelector("#found-title").textContent === "Dry run: Stop" && document.querySelector('[value="start"]').textContent === "Stop 10 instances"`)
	b.do(chromedp.Focus(chromedp.CSS("#reason")), chromedp.KeyEvent("asked by mail"))
	b.do(chromedp.Click(chromedp.CSS(`[value="start"]`)))
	b.until(`location.pathname.startsWith("/console/jobs/") && document.querySelector(".job progress").max === 10`)
	b.until(`document.querySelector("[data-part=job-say]").textContent === "The job has ended: 10 changed, 0 skipped, 0 failed."`)
	b.until(`document.querySelector(".job progress").value === 10 && !document.querySelector('[value="stop"]')`)
	for id, want := range map[string]statechart.Status{"01": statechart.Stopped, "010": statechart.Stopped, "10": statechart.Active} {
		if got := b.w.record(id).Status; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	b.clean()
}

func TestBulkOperationsAreLegibleInBothThemesAndOnAPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.places(3)
	_, job, _ := b.w.start("operation=move&to=work.broken")
	b.w.ended(job)
	b.areLegible(`document.querySelector("#choose-title, #progress-title")`,
		"machines/order/bulk", "machines/order/bulk?operation=stop", "machines/order/bulk?operation=move", "machines/order/bulk?operation=move&to=work.broken", job)
}
