package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/settle-run/settle/infra/awslocal"
)

// call is a recorded AWS call. Input is the JSON form of the operation's input.
type call struct {
	Operation string
	Input     json.RawMessage
}

// totals counts the calls of each operation, and the bytes of their requests.
type totals map[string]struct{ Calls, Bytes int }

// String lists the operations in order.
func (s totals) String() string {
	var list []string
	for _, operation := range slices.Sorted(maps.Keys(s)) {
		list = append(list, fmt.Sprintf("%s: %d calls of %d bytes", operation, s[operation].Calls, s[operation].Bytes/s[operation].Calls))
	}
	return strings.Join(list, ", ")
}

// recorder serves AWS and records the calls.
type recorder struct {
	cloud *awslocal.Cloud

	mu sync.Mutex
	// message is the ID of the message that is being processed.
	message   string
	byMessage map[string][]call
	totals    totals
}

// ServeHTTP records a call and serves it.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	made := callOf(request, body)
	r.mu.Lock()
	total := r.totals[made.Operation]
	total.Calls, total.Bytes = total.Calls+1, total.Bytes+len(made.Input)
	r.totals[made.Operation] = total
	r.byMessage[r.message] = append(r.byMessage[r.message], made)
	r.mu.Unlock()
	r.cloud.ServeHTTP(w, request)
}

// callOf returns the call that a request makes. For EventBridge Scheduler, the method and path name the operation, and
// the path and query contain a part of the input.
func callOf(request *http.Request, body []byte) call {
	if _, operation, ok := strings.Cut(request.Header.Get("X-Amz-Target"), "."); ok {
		return call{operation, body}
	}
	input := map[string]any{}
	if json.Unmarshal(body, &input) != nil || input == nil {
		input = map[string]any{}
	}
	name, ok := strings.CutPrefix(request.URL.Path, "/schedules/")
	input["Name"] = name
	operation := request.Method + " " + request.URL.Path
	switch {
	case ok && request.Method == http.MethodPost:
		operation = "CreateSchedule"
	case ok && request.Method == http.MethodDelete:
		operation, input["GroupName"] = "DeleteSchedule", request.URL.Query().Get("groupName")
	}
	text, _ := json.Marshal(input) // The input comes from JSON.
	return call{operation, text}
}

// tolerance limits how much an operation's number of calls and bytes may differ between two runs. Some timestamps have
// fewer digits than others, and the number of reads that a process's cache saves varies slightly.
const tolerance = 0.01

// want checks the calls of a program.
func (r *recorder) want(t *testing.T, program string, want totals) {
	t.Helper()
	same := len(r.totals) == len(want)
	isClose := func(got, want int) bool { return math.Abs(float64(got-want)) <= tolerance*float64(want) }
	for operation, w := range want {
		got := r.totals[operation]
		same = same && isClose(got.Calls, w.Calls) && isClose(got.Bytes, w.Bytes)
	}
	if !same {
		t.Fatalf("the %s made other calls than the recorded consumer: got %s\nwant %s", program, r.totals, want)
	}
}

// writeTable replaces the named table in a page.
func writeTable(t *testing.T, path, name, table string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- "+name+" -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !closed {
		t.Fatalf("expected <!-- %s --> in %s", name, path)
	}
	if err := os.WriteFile(path, []byte(before+"<!-- "+name+" -->\n"+table+"<!-- end -->\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
