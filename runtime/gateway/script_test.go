package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/settle-run/settle/runtime/gateway"
)

// TestScripts runs the requests of each file in testdata against one API. It compares the full answers and the queued
// events. `go test -rewrite` updates the files.
//
// The only command is "request". Its input is a request as in HTTP/1.1. Arguments: sign adds the signature of a
// webhook. queue=down and store=down make the queue and the store fail.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("expected scripts in testdata, found %v, %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret), EventBytesMax: 200})
			w.table.put(t, "42", 7)
			w.table.claim("acme/7", "42")
			datadriven.RunTest(t, script, func(t *testing.T, d *datadriven.TestData) string {
				t.Helper()
				if d.Cmd != "request" {
					d.Fatalf(t, "expected the command request, got %q", d.Cmd)
				}
				return w.script(t, d)
			})
		})
	}
}

func (w *world) script(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	r := parseRequest(t, d.Input)
	if d.HasArg("sign") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Hub-Signature-256", sign(webhookSecret, body))
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	w.queue.down, w.table.down = nil, nil
	for _, arg := range d.CmdArgs {
		switch arg.String() {
		case "queue=down":
			w.queue.down = errors.New("ThrottlingException: account 123456789012 is slowed down")
		case "store=down":
			w.table.down = errors.New("ProvisionedThroughputExceededException: table of account 123456789012")
		}
	}
	queued := len(w.queue.sent)
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return describe(t, answer) + w.describeQueued(queued)
}

// parseRequest parses a request line, headers, a blank line and the body.
func parseRequest(t *testing.T, text string) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(text+"\n\n", "\n\n")
	body = strings.TrimRight(body, "\n")
	line, fields, _ := strings.Cut(head, "\n")
	method, target, ok := strings.Cut(line, " ")
	if !ok {
		t.Fatalf("expected a method and a path, got %q", line)
	}
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(fields + "\n\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header = http.Header(header)
	return r
}

// describe formats an answer: status, the headers that vary, body.
func describe(t *testing.T, answer *httptest.ResponseRecorder) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", answer.Code, http.StatusText(answer.Code))
	for _, name := range []string{"Allow", "Cache-Control", "Content-Type", "ETag", "Location", "Retry-After"} {
		if value := answer.Header().Get(name); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	if length := answer.Header().Get("Content-Length"); answer.Body.Len() > 0 && length != fmt.Sprint(answer.Body.Len()) {
		t.Errorf("Content-Length is %q, expected %d", length, answer.Body.Len())
	}
	b.WriteString(answer.Body.String())
	return b.String()
}

// randomID matches a random deduplication ID.
var randomID = regexp.MustCompile(`^[A-Z2-7]{26}$`)

func (w *world) describeQueued(before int) string {
	var b strings.Builder
	for _, message := range w.queue.sent[before:] {
		id := message.DeduplicationID
		if randomID.MatchString(id) {
			id = "a random ID"
		}
		fmt.Fprintf(&b, "queued for %s under %s\n  %s\n", message.To, id, message.Body)
	}
	return b.String()
}
