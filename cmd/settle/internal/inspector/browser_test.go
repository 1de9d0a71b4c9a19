package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/settle-run/settle/cmd/settle/internal/inspector"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// viewerPage receives messages like createBrowserReceiver of @statelyai/inspect, and reports them one by one to its
// server.
const viewerPage = `<script>
let sent = Promise.resolve();
addEventListener('message', (event) => {
	sent = sent.then(() => fetch('/report', { method: 'POST', body: event.data.type + ' ' + event.data.sessionId }));
});
setTimeout(() => parent.postMessage({ type: '@statelyai.connected' }, '*'), 200); // Messages wait until the viewer is ready.
</script>`

// foreignPage is a page of another site that tries to read the instances.
const foreignPage = `<script>
const socket = new WebSocket('ws://%s/inspect');
for (const type of ['open', 'message', 'error'])
	socket.addEventListener(type, () => fetch('/report', { method: 'POST', body: type }));
</script>`

func TestABrowserShowsTheInstancesAndRefusesOtherSites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: make check and make test-browser run the tests that start a browser")
	}
	reports := make(chan string, 10)
	var inspected *httptest.Server
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/report":
			body, _ := io.ReadAll(r.Body)
			reports <- string(body)
		case "/viewer":
			_, _ = io.WriteString(w, viewerPage)
		case "/foreign":
			_, _ = fmt.Fprintf(w, foreignPage, inspected.Listener.Addr())
		}
	}))
	defer site.Close()
	inspected = httptest.NewServer(newInspectorOf(t, inspector.Config{
		Store: &store{records: []instances.Record{record("1", 1, statechart.Active)}}, Viewer: site.URL + "/viewer",
	}))
	defer inspected.Close()

	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))...)
	defer stop()
	ctx, stop = chromedp.NewContext(ctx)
	defer stop()
	visit := func(address string, want ...string) {
		t.Helper()
		err := chromedp.Do(ctx, chromedp.Navigate(address))
		if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true" {
			t.Skip("no Chrome or Chromium on this machine, and CI=true is not set")
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range want {
			select {
			case report := <-reports:
				got = append(got, report)
			case <-time.After(2 * time.Minute):
				t.Fatalf("%s: expected %q, got only %q", address, want, got)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: expected %q, got %q", address, want, got)
		}
	}
	visit(inspected.URL+"/inspect", "@xstate.actor lamp/1", "@xstate.snapshot lamp/1")
	visit(site.URL+"/foreign", "error")
}
