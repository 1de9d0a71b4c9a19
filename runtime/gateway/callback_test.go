package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// verifyAcme accepts the key "right" for every instance. `until` counts the seconds after `epoch`.
func verifyAcme(_, until, key string) (time.Time, bool) {
	seconds, err := strconv.Atoi(until)
	return epoch.Add(time.Duration(seconds) * time.Second), err == nil && key == "right"
}

// readAcme reads {"job", "code"} as the event VERIFY.
func readAcme(body []byte) (alias string, event json.RawMessage, err error) {
	var callback struct {
		Job  string          `json:"job"`
		Code json.RawMessage `json:"code"`
	}
	if err := json.Unmarshal(body, &callback); err != nil {
		return "", nil, err
	}
	if callback.Job == "" {
		return "", nil, errors.New("expected a job")
	}
	return "acme/" + callback.Job, fmt.Appendf(nil, `{"type":"VERIFY","code":%s}`, callback.Code), nil
}

// newAcmeWorld returns a world in which signup/42 waits for acme's job 7. The address of its callback expires in thirty
// seconds.
func newAcmeWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, gateway.Config{
		Callbacks: map[string]gateway.Callback{"acme": {Machine: "signup", Verify: verifyAcme, Read: readAcme}},
		Now:       func() time.Time { return epoch.Add(time.Hour) },
	})
	w.table.put(t, "42", 2)
	id := instances.ID{Machine: "signup", ID: "42"}
	record := w.table.records[id]
	record.Outbox = nil
	w.table.records[id] = record
	w.table.claim("acme/7", "42")
	return w
}

const (
	acmePath = "/webhooks/acme/42/3630/right"
	acmeBody = `{"job":"7","code":1234}`
)

func wantAnswer(t *testing.T, what string, answer *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	if answer.Code != status || !strings.Contains(answer.Body.String(), code) {
		t.Errorf("%s: want %d with %s, got %d: %s", what, status, code, answer.Code, answer.Body)
	}
}

func TestFirstCallbackIsAcceptedAndOthersGetTheReason(t *testing.T) {
	t.Parallel()
	released := func(w *world, event json.RawMessage) {
		w.table.aliases["acme/7"] = dynamostore.Redemption{Instance: instances.ID{Machine: "signup", ID: "42"}, Released: true, Event: event}
	}
	for name, c := range map[string]struct {
		before     func(w *world)
		path, body string
		status     int
		code       string
		queued     int
	}{
		"the first":                   {nil, acmePath, acmeBody, http.StatusAccepted, `"instance":"signup/42","type":"VERIFY"`, 1},
		"a repeat":                    {func(w *world) { post(w, acmePath, acmeBody, nil) }, acmePath, acmeBody, http.StatusConflict, "already_processed", 1},
		"another callback after it":   {func(w *world) { post(w, acmePath, acmeBody, nil) }, acmePath, `{"job":"7","code":99}`, http.StatusConflict, "already_processed", 1},
		"a repeat after the release":  {func(w *world) { released(w, json.RawMessage(`{}`)) }, acmePath, acmeBody, http.StatusConflict, "signup/42 received it and stopped waiting", 0},
		"released without a callback": {func(w *world) { released(w, nil) }, acmePath, acmeBody, http.StatusGone, "signup/42 stopped waiting without this callback", 0},
		"at the deadline":             {nil, "/webhooks/acme/42/3600/right", acmeBody, http.StatusGone, "expired", 0},
		"a second before it":          {nil, "/webhooks/acme/42/3601/right", acmeBody, http.StatusAccepted, "VERIFY", 1},
		"a wrong key":                 {nil, "/webhooks/acme/42/3630/wrong", acmeBody, http.StatusNotFound, "unknown_callback", 0},
		"a wrong key, expired":        {nil, "/webhooks/acme/42/1/wrong", acmeBody, http.StatusNotFound, "unknown_callback", 0},
		"an unknown provider":         {nil, "/webhooks/else/42/3630/right", acmeBody, http.StatusNotFound, "unknown_callback", 0},
		"an unknown job":              {nil, acmePath, `{"job":"8","code":1}`, http.StatusNotFound, "unknown_callback", 0},
		"another instance's job":      {func(w *world) { w.table.claim("acme/8", "43") }, acmePath, `{"job":"8","code":1}`, http.StatusNotFound, "unknown_callback", 0},
		"another instance's job during the first turn": {func(w *world) { w.table.claim("acme/8", "43") }, "/webhooks/acme/44/3630/right", `{"job":"8","code":1}`,
			http.StatusNotFound, "unknown_callback", 0},
		"before anything is stored":         {nil, "/webhooks/acme/44/3630/right", `{"job":"8","code":1}`, http.StatusServiceUnavailable, "early", 0},
		"no job":                            {nil, acmePath, `{}`, http.StatusBadRequest, `"code":"callback","detail":"not a callback: expected a job"`, 0},
		"no JSON":                           {nil, acmePath, `job=7`, http.StatusBadRequest, `"code":"callback"`, 0},
		"an event that the machine rejects": {nil, acmePath, `{"job":"7","code":""}`, http.StatusBadRequest, `"code":"payload"`, 0},
		"the store is down":                 {func(w *world) { w.table.down = errors.New("down") }, acmePath, acmeBody, http.StatusServiceUnavailable, `"code":"store"`, 0},
		"the queue is down":                 {func(w *world) { w.queue.down = errors.New("down") }, acmePath, acmeBody, http.StatusServiceUnavailable, `"code":"queue"`, 0},
		"the body is too large":             {nil, acmePath, strings.Repeat(" ", producer.EventBytesMax+1), http.StatusRequestEntityTooLarge, "too_large", 0},
		"the largest event":                 {nil, acmePath, acmeCode(gateway.CallbackBytesMax), http.StatusAccepted, "VERIFY", 1},
		"an event that the table cannot store": {nil, acmePath, acmeCode(gateway.CallbackBytesMax + 1), http.StatusRequestEntityTooLarge,
			"expected the event of a callback to have at most 262144 bytes, got 262145: store the data elsewhere and send a reference", 0},
		"an invalid instance ID": {nil, "/webhooks/acme/" + strings.Repeat("4", 200) + "/3630/right", acmeBody, http.StatusBadRequest, "instance_id", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAcmeWorld(t)
			if c.before != nil {
				c.before(w)
			}
			wantAnswer(t, name, post(w, c.path, c.body, nil), c.status, c.code)
			if got := len(w.queue.sent); got != c.queued {
				t.Errorf("want %d events in the queue, got %d", c.queued, got)
			}
			if strings.Contains(w.log.String(), "right") {
				t.Errorf("the log contains the key of an address:\n%s", &w.log)
			}
		})
	}
}

// acmeCode returns a callback whose event has the given size.
func acmeCode(eventBytes int) string {
	return `{"job":"7","code":` + strings.Repeat("1", eventBytes-len(`{"type":"VERIFY","code":}`)) + `}`
}

func TestRejectedCallbackDoesNotRedeemTheAlias(t *testing.T) {
	t.Parallel()
	w := newAcmeWorld(t)
	wantAnswer(t, "wrong", post(w, acmePath, `{"job":"7","code":""}`, nil), http.StatusBadRequest, "payload")
	wantAnswer(t, "right", post(w, acmePath, acmeBody, nil), http.StatusAccepted, "VERIFY")
}

func TestRetryQueuesACallbackThatTheQueueDidNotConfirm(t *testing.T) {
	t.Parallel()
	w := newAcmeWorld(t)
	w.queue.down = errors.New("down")
	wantAnswer(t, "while the queue is down", post(w, acmePath, acmeBody, nil), http.StatusServiceUnavailable, "queue")
	w.queue.down = nil
	// The gateway queues the event of the first callback again, not the event of the retry.
	wantAnswer(t, "the retry", post(w, acmePath, `{"job":"7","code":99}`, nil), http.StatusConflict, "already_processed")
	want := fmt.Sprintf(`{"type":"VERIFY","code":1234,"$id":"callback/%s"}`, w.table.aliases["acme/7"].By)
	if len(w.queue.sent) != 1 || string(w.queue.sent[0].Body) != want {
		t.Errorf("want %s queued, got %+v", want, w.queue.sent)
	}
}

func TestOneOfAHundredConcurrentCallbacksIsAccepted(t *testing.T) {
	t.Parallel()
	w := newAcmeWorld(t)
	codes := make([]int, 100)
	var wait sync.WaitGroup
	for i := range codes {
		wait.Go(func() { codes[i] = post(w, acmePath, acmeBody, nil).Code })
	}
	wait.Wait()
	slices.Sort(codes)
	if codes[0] != http.StatusAccepted || codes[1] != http.StatusConflict || codes[99] != http.StatusConflict || len(w.queue.sent) != 1 {
		t.Errorf("want 202 once, 409 99 times and one event queued, got %v and %d events", codes, len(w.queue.sent))
	}
}

// TestCallbackIsEarlyWhileItsInstanceIsUnderWay changes the record of a settled instance in each way that makes it
// unsettled.
func TestCallbackIsEarlyWhileItsInstanceIsUnderWay(t *testing.T) {
	t.Parallel()
	id := instances.ID{Machine: "signup", ID: "42"}
	for name, c := range map[string]struct {
		change func(*instances.Record)
		status int
	}{
		"settled": {func(*instances.Record) {}, http.StatusNotFound},
		"pending effects": {func(r *instances.Record) {
			r.Outbox = []statechart.Effect{{ID: "2.0", Kind: statechart.ClaimAlias, Name: "acme/8"}}
		}, http.StatusServiceUnavailable},
		"not stored": {func(r *instances.Record) { *r = instances.Record{Instance: id} }, http.StatusServiceUnavailable},
		"ended":      {func(r *instances.Record) { r.Status = statechart.Done }, http.StatusNotFound},
	} {
		w := newAcmeWorld(t)
		record := w.table.records[id]
		c.change(&record)
		w.table.records[id] = record
		answer := post(w, acmePath, `{"job":"8","code":1}`, nil)
		if answer.Code != c.status || (answer.Header().Get("Retry-After") == "1") != (c.status == http.StatusServiceUnavailable) {
			t.Errorf("%s: want %d, got %d %v: %s", name, c.status, answer.Code, answer.Header(), answer.Body)
		}
	}
}

func TestGetByAlias(t *testing.T) {
	t.Parallel()
	w := newAcmeWorld(t)
	get := func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer
	}
	byName, byAlias := get("/instances/signup/42"), get("/aliases/acme/7")
	if byAlias.Code != http.StatusOK || byAlias.Body.String() != byName.Body.String() || byAlias.Header().Get("ETag") != byName.Header().Get("ETag") {
		t.Errorf("want the same as by name, %s, got %d: %s", byName.Body, byAlias.Code, byAlias.Body)
	}
	wantAnswer(t, "an unknown alias", get("/aliases/acme/8"), http.StatusNotFound, "unknown_alias")
	w.table.down = errors.New("down")
	wantAnswer(t, "the store is down", get("/aliases/acme/7"), http.StatusServiceUnavailable, "store")
}

// The instance receives a callback, releases the alias and claims it again. The next callback must not count as a
// duplicate of the first.
func TestCallbackAfterASecondClaimIsANewEvent(t *testing.T) {
	t.Parallel()
	w := newAcmeWorld(t)
	wantAnswer(t, "the first", post(w, acmePath, acmeBody, nil), http.StatusAccepted, "VERIFY")
	w.table.claim("acme/7", "42")
	w.queue.forget()
	wantAnswer(t, "the next", post(w, acmePath, acmeBody, nil), http.StatusAccepted, "VERIFY")
	var ids []string
	for _, message := range w.queue.sent {
		var event struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal(message.Body, &event); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, event.ID)
	}
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("got the event IDs %q, want two different ones", ids)
	}
}
