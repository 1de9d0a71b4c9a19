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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/gateway"
)

// TestScripts runs the requests of each file in testdata against one API. It compares the full answers and the queued
// events. `go test -rewrite` updates the files.
//
// The only command is "request". Its input is a request as in HTTP/1.1. Its arguments:
//
//	sign                        add the signature of a webhook
//	sign=previous, sign=older   sign with the previous secret, or with the one before it
//	key=NAME                    replace KEY in the path with the key that the named consumer makes for signup/42
//	queue=down, store=down      let the queue or the store fail
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("expected scripts in testdata, found %v, %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, gateway.Config{
				Webhooks: github(webhookSecret), EventBytesMax: 200, Now: func() time.Time { return epoch },
				Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "signup", Verify: consumers["current"].Verify, Read: readAcme}},
			})
			w.table.put(t, "42", 7)
			for _, job := range []string{"1", "2", "3", "7"} {
				w.table.claim("acme/"+job, "42")
			}
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

// consumers holds consumers by name, with their callback keys. The key is rotated several times: each consumer has the
// keys of one stage of the rotation. In the scripts, the gateway has the keys of the consumer "current".
var consumers = func() map[string]enrich.Callbacks {
	key := func(name string) []byte { return []byte("the callback key " + name) }
	return map[string]enrich.Callbacks{
		"older": {Key: key("0")}, "previous": {Key: key("1")}, "current": {Key: key("2"), PreviousKey: key("1")},
		"rotated": {Key: key("2")}, "next": {Key: key("3"), PreviousKey: key("2")}, "skipped": {Key: key("3")},
	}
}()

// signAs adds the key or the signature that the arguments select.
func signAs(t *testing.T, d *datadriven.TestData, r *http.Request) {
	t.Helper()
	var consumer, signer string
	d.MaybeScanArgs(t, "key", &consumer)
	if consumer != "" {
		callbacks, known := consumers[consumer]
		if !known {
			d.Fatalf(t, "unknown consumer %q", consumer)
		}
		address := callbacks.Address("signup/42", epoch.Add(time.Minute))
		r.URL.Path = strings.ReplaceAll(r.URL.Path, "KEY", address[strings.LastIndexByte(address, '/')+1:])
		r.URL.Path = strings.ReplaceAll(r.URL.Path, "UNTIL", strconv.FormatInt(epoch.Add(time.Minute).Unix(), 10))
	}
	if !d.HasArg("sign") {
		return
	}
	if len(d.CmdArgs[0].Vals) > 0 {
		d.ScanArgs(t, "sign", &signer)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]string{"": webhookSecret, "previous": previousSecret, "older": olderSecret}[signer]
	r.Header.Set("X-Hub-Signature-256", sign(secret, body))
	r.Body = io.NopCloser(strings.NewReader(string(body)))
}

func (w *world) script(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	r := parseRequest(t, d.Input)
	signAs(t, d, r)
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

// describe formats an answer: its status, the headers that vary, and its body.
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

// randomID matches a random deduplication ID. randomCallback matches the ID of a callback's event.
var (
	randomID       = regexp.MustCompile(`^[A-Z2-7]{26}$`)
	randomCallback = regexp.MustCompile(`callback/[A-Z2-7]{26}`)
)

func (w *world) describeQueued(before int) string {
	var b strings.Builder
	for _, message := range w.queue.sent[before:] {
		id := message.DeduplicationID
		if randomID.MatchString(id) {
			id = "a random ID"
		}
		fmt.Fprintf(&b, "queued for %s under %s\n  %s\n", message.To, id, message.Body)
	}
	return randomCallback.ReplaceAllString(b.String(), "callback/RANDOM")
}
