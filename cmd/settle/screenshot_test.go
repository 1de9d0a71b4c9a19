package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

var updateScreenshot = flag.Bool("update", false, "take the screenshot of the console again")

const (
	screenshot = "../../docs/console.png"
	// shownText is the text of the page at the time of the screenshot.
	shownText          = "../../docs/console.txt"
	screenshotBytesMax = 200 << 10
)

// sameCode mails the same code each time.
type sameCode struct{}

func (sameCode) SendVerification(context.Context, signup.Verification) (string, error) {
	return "123456", nil
}

// pageText returns a line for each text that the page shows, in the order of the document. A state or an arrow that is
// marked on the chart has its marks in front.
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

// TestScreenshotOfTheConsoleIsCurrent opens the page of an instance, and compares its text with the text at the time of
// the screenshot. Browsers draw the same page with different pixels, so the test does not compare the picture.
func TestScreenshotOfTheConsoleIsCurrent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: make check and make test-browser run the tests that start a browser")
	}
	ctx := newTab(t)
	address := signedUp(t)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(chromedp.Do(ctx, chromedp.EmulateViewport(1280, 1236), chromedp.Navigate(address)))
	ready := `new Promise((resolve) => {
		const look = () => document.querySelector("#status").dataset.state === "good" && document.querySelector(".state.active") ? resolve(true) : setTimeout(look, 20);
		look();
	})`
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](ready, chromedp.EvalAwaitPromise))
	must(err)
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](pageText))
	must(err)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = clockText.ReplaceAllString(line, "TIME")
	}
	if *updateScreenshot {
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
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

// newTab returns a browser's tab. Without a browser on this machine, it fails under CI=true and skips the test otherwise.
func newTab(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	switch err := chromedp.Do(ctx); {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true":
		t.Skip("no browser on this machine, and CI=true is not set")
	case err != nil:
		t.Fatalf("%v: the test needs Chrome or Chromium: apt-get install chromium, brew install --cask chromium, or https://www.google.com/chrome/", err)
	}
	return ctx
}

// signedUp starts a stack whose clock begins at a fixed time, and plays a sign-up with a wrong code. It returns the
// address of the sign-up's page.
func signedUp(t *testing.T) string {
	t.Helper()
	began := time.Now()
	now := func() time.Time {
		return time.Date(2026, 11, 20, 17, 19, 34, 0, time.UTC).Add(time.Since(began))
	}
	logger := slog.New(slog.DiscardHandler)
	services := demo.Services(logger)
	services.Mailer = sameCode{}
	hosted := func(string) []durable.Machine {
		return machines.All(services, machines.Settings{Signup: signup.Config{CodeKey: []byte("a key of sixteen bytes")}})
	}
	running, err := stack.Start(t.Context(), hosted, stack.Config{HTTPAddr: "127.0.0.1:0", Now: now, Logger: logger, Operator: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
	id := instances.ID{Machine: "signup", ID: "42"}
	for i, event := range []string{
		`{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`, `{"type": "VERIFY", "code": "000000"}`, `{"type": "RESEND"}`,
	} {
		sent, err := http.Post(running.HTTPURL()+"/instances/"+id.String()+"/events", "application/json", strings.NewReader(event))
		if err != nil {
			t.Fatal(err)
		}
		_ = sent.Body.Close() // Revision below shows that the event was accepted.
		for {
			record, err := running.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if len(record.History) > i && strings.Join(record.State, " ") == "unverified.awaiting_verification" && len(record.Outbox) == 0 && record.Revision > int64(i) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return running.ConsoleURL() + "instances/" + id.String()
}
