package console_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
)

var updateScreenshot = flag.Bool("update", false, "take the screenshot of the console again")

const (
	screenshot = "../../docs/console.png"
	// shownText is the text of the page at the time of the screenshot.
	shownText          = "../../docs/console.txt"
	screenshotBytesMax = 200 << 10
)

// pageText returns a line for each text that the page shows, in document order. For a marked state or arrow of the
// chart, the marks come before the text.
const pageText = `(() => {
	const lines = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement, text = walker.currentNode.data.replace(/\s+/g, " ").trim();
		if (!text || element.closest(".hidden, .skip, script, title, desc, [hidden]") || !element.checkVisibility()) continue;
		const marked = element.closest(".state, .transition, .edge");
		lines.push(["active", "visited", "taken", "parked"].filter((mark) => marked?.classList.contains(mark)).map((mark) => mark + ": ").join("") + text);
	}
	return lines.join("\n") + "\n";
})()`

// clockText matches the parts of the page that depend on the time.
var clockText = regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d{3})?|\d+ (ms|s|min)( ago)?$`)

// TestScreenshotOfTheConsoleIsCurrent opens the page of a sign-up with a wrong code. It compares the page's text with
// the text at the time of the screenshot. It does not compare pictures, because browsers render the page differently.
func TestScreenshotOfTheConsoleIsCurrent(t *testing.T) {
	t.Parallel()
	b := newBrowserOf(t, func() *world { return newSignUp(t) })
	b.w.send("signup/42", `{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`)
	b.w.send("signup/42", `{"type": "VERIFY", "code": "000000"}`)
	b.w.send("signup/42", `{"type": "RESEND"}`)
	b.do(chromedp.EmulateViewport(1280, 1236))
	b.open("instances/signup/42")
	b.until(`document.querySelector(".state.active")`)
	lines := strings.Split(get[string](b, pageText), "\n")
	for i, line := range lines {
		lines[i] = clockText.ReplaceAllString(line, "TIME")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if *updateScreenshot {
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		must(err)
		must(os.WriteFile(screenshot, picture, 0o600))
		must(os.WriteFile(shownText, []byte(strings.Join(lines, "\n")), 0o600))
	}
	taken, err := os.ReadFile(shownText)
	must(err)
	if diff := cmp.Diff(strings.Split(string(taken), "\n"), lines); diff != "" {
		t.Errorf("the page has changed since the screenshot; make screenshot takes it again (-then +now):\n%s", diff)
	}
	picture, err := os.Stat(screenshot)
	must(err)
	if picture.Size() > screenshotBytesMax {
		t.Errorf("expected a screenshot of at most %d bytes, got %d", screenshotBytesMax, picture.Size())
	}
}

// sameCode mails the same code each time.
type sameCode struct{}

func (sameCode) SendVerification(context.Context, signup.Verification) (string, error) {
	return "123456", nil
}

// newSignUp is newWorld for the machine "signup", with a clock that starts at a fixed time.
func newSignUp(t *testing.T) *world {
	t.Helper()
	services := demo.Services(slog.New(slog.DiscardHandler))
	services.Mailer = sameCode{}
	hosted := machines.All(services, machines.Settings{Signup: signup.Config{CodeKey: []byte("a key of sixteen bytes")}})
	at := slices.IndexFunc(hosted, func(m durable.Machine) bool { return m.ID() == "signup" })
	began := time.Now()
	clock := awslocal.NewClock(func() time.Time {
		return time.Date(2026, 11, 20, 17, 19, 34, 0, time.UTC).Add(time.Since(began))
	})
	return newWorldOf(t, hosted[at], clock, func(c *console.Config) { c.Title = "settle dev · table settle" })
}
