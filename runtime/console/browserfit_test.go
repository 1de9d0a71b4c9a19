package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestAChartIsLegibleAndSaysWhereItIsCut(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	for _, page := range []string{"machines/order", "instances/order/1"} {
		for _, width := range []int64{320, 700, 1280} {
			b.do(chromedp.EmulateViewport(width, 500))
			b.open(page)
			if size := get[float64](b, `11 * document.querySelector("svg.chart").clientWidth / document.querySelector("svg.chart").viewBox.baseVal.width`); size < 9.9 {
				t.Errorf("%s, %d pixels wide: expected labels of at least 10 pixels, got %.1f", page, width, size)
			}
			b.until(`(({ scrollWidth, clientWidth }) => document.querySelector(".more").textContent.includes("→") === (scrollWidth > clientWidth + 24))(document.querySelector(".canvas"))`)
			b.until(`(({ scrollHeight, clientHeight, scrollTop }) => document.querySelector(".more").textContent.includes("↓") === (scrollHeight > clientHeight + scrollTop + 24))(document.querySelector(".canvas"))`)
		}
		isWhole := get[bool](b, `document.querySelector(".canvas").scrollHeight === document.querySelector(".canvas").clientHeight`)
		if isWhole != (page == "machines/order") {
			t.Errorf("%s: the canvas shows the whole height: %v", page, isWhole)
		}
	}
	b.do(chromedp.EmulateViewport(320, 500))
	b.open("machines/order")
	b.until(`document.querySelector(".more").textContent === "scroll for more →"`)
	get[any](b, `document.querySelector(".canvas").scrollLeft = 9999, null`)
	b.until(`document.querySelector(".more").textContent === "scroll for more ←"`)
	if !get[bool](b, `(({ bottom }) => bottom <= innerHeight)(document.querySelector(".more").getBoundingClientRect())`) {
		t.Error("expected the hint within the window")
	}
	b.clean()
}

func TestTablesAreNotCutOnAPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.w.send("order/1", place)
	b.w.send("order/2", place)
	b.w.send("order/2", `{"type": "CANCEL"}`)
	b.do(chromedp.EmulateViewport(260, 844)) // The words of this machine are short.
	for _, page := range []string{"", "instances/order/1"} {
		b.open(page)
		if cut := get[[]string](b, `[...document.querySelectorAll(".rows")].flatMap((table) => [...table.querySelectorAll("tbody td, tbody th")].
			filter((cell) => cell.getBoundingClientRect().right > table.parentNode.getBoundingClientRect().right + 1).map((cell) => cell.innerText))`); len(cut) > 0 {
			t.Errorf("%s: these cells are cut: %q", page, cut)
		}
	}
	for _, width := range []int64{390, 1440} {
		b.do(chromedp.EmulateViewport(width, 844))
		b.open("machines/order")
		if tallest := get[float64](b, `Math.max(...[...document.querySelectorAll(".list tbody tr")].map((row) => row.getBoundingClientRect().height))`); tallest > 40 {
			t.Errorf("%d pixels wide: expected one line for each instance, got a row of %v pixels", width, tallest)
		}
	}
	b.clean()
}

func TestTheHeaderSaysLive(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.open("")
	b.until(`document.querySelector("#status").textContent === "live" && /^reads every \d+ (ms|s|min)$/.test(document.querySelector("#status").title)`)
	b.clean()
}
