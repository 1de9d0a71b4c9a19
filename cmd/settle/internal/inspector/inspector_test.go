package inspector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/settle-run/settle/cmd/settle/internal/inspector"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// epoch is the creation time of the tests' instances.
var epoch = time.UnixMilli(1_000)

// store is a Store of records. After it has listed all records, it calls `listed`.
type store struct {
	records []instances.Record
	listed  func()
}

func (s *store) Load(_ context.Context, id instances.ID) (instances.Record, error) {
	for _, record := range s.records {
		if record.Instance == id {
			return record, nil
		}
	}
	return instances.Record{Instance: id}, nil
}

func (s *store) ListPage(_ context.Context, filter dynamostore.Filter, limit int, _ string) (dynamostore.Page, error) {
	var page dynamostore.Page
	for _, record := range s.records {
		if record.Status == filter.Status && len(page.Records) < limit {
			page.Records = append(page.Records, record)
		}
	}
	if s.listed != nil && filter.Status == statechart.Stopped {
		s.listed()
	}
	return page, nil
}

// record returns an instance of the machine lamp, which is on.
func record(id string, revision int64, status statechart.Status) instances.Record {
	return instances.Record{
		Instance: instances.ID{Machine: "lamp", ID: id}, Revision: revision, Status: status, CreatedAt: epoch, UpdatedAt: epoch,
		Snapshot: json.RawMessage(`{"version": 1, "value": "on", "context": {}, "tags": ["settled"]}`),
	}
}

// commit returns a commit of the record with a transition for each event.
func commit(record instances.Record, events ...string) durable.Committed {
	committed := durable.Committed{Instance: record.Instance.String(), Revision: record.Revision, Record: record}
	for _, event := range events {
		committed.Transitions = append(committed.Transitions, instances.Transition{At: epoch, Event: event})
		committed.Events = append(committed.Events, statechart.Event{Payload: map[string]any{"level": 3}})
	}
	return committed
}

func newInspector(t *testing.T, s *store) *inspector.Inspector {
	t.Helper()
	return newInspectorOf(t, inspector.Config{Store: s})
}

// newInspectorOf returns an inspector of the machine lamp.
func newInspectorOf(t *testing.T, config inspector.Config) *inspector.Inspector {
	t.Helper()
	lamp := statechart.Must(statechart.Definition[struct{}]{
		ID: "lamp", Version: 1, Initial: "on", States: []statechart.State[struct{}]{{ID: "on", Tags: []string{statechart.Settled}}},
	})
	var err error
	if config.Machines, err = durable.NewMachines(durable.Host(lamp, durable.MachineConfig{})); err != nil {
		t.Fatal(err)
	}
	config.Logger = slog.New(slog.DiscardHandler)
	inspected, err := inspector.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return inspected
}

// pipes is a listener whose connections have no buffer.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// connect serves the inspector and connects a client to it.
func connect(t *testing.T, inspected *inspector.Inspector) *websocket.Conn {
	t.Helper()
	listener := pipes{make(chan net.Conn)}
	server := &http.Server{Handler: inspected}
	go func() { _ = server.Serve(listener) }() // It ends with ErrServerClosed or net.ErrClosed.
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		listener.accepted <- there
		return here, nil
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	conn, answer, err := websocket.Dial(t.Context(), "ws://localhost/inspect", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body != nil {
		_ = answer.Body.Close()
	}
	t.Cleanup(func() {
		close(listener.accepted)
		_ = server.Close()
	})
	return conn
}

// read returns the next messages, without the keys that are the same in all messages or irrelevant to these tests.
func read(t *testing.T, conn *websocket.Conn, n int) []string {
	t.Helper()
	var lines []string
	for range n {
		_, text, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("expected %d messages, got %q and %v", n, lines, err)
		}
		var m struct {
			Type, SessionID, RootID, ParentID, SourceID string
			Event                                       json.RawMessage
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimPrefix(m.Type, "@xstate.") + " " + m.SessionID
		for _, part := range []struct{ name, value string }{{"of", m.RootID}, {"child of", m.ParentID}, {"from", m.SourceID}, {"", string(m.Event)}} {
			if part.value != "" && part.value != m.SessionID {
				line += " " + strings.TrimSpace(part.name+" "+part.value)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// The instances change while the client connects. The client receives each commit once, in order.
func TestALateClientReceivesTheInstancesAndThenTheLaterCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{records: []instances.Record{record("1", 7, statechart.Active), record("2", 3, statechart.Done)}}
		s.records[0].History = []instances.Transition{{Event: "ON"}}
		inspected := newInspector(t, s)
		ctx := t.Context()
		s.listed = func() {
			inspected.Committed(ctx, commit(record("1", 7, statechart.Active), "STALE"))
			inspected.Committed(ctx, commit(record("1", 8, statechart.Active))) // A commit without transitions.
			inspected.Committed(ctx, commit(record("1", 9, statechart.Active), "DIM", "done.invoke.x"))
			again := record("2", 1, statechart.Active)
			again.CreatedAt = epoch.Add(time.Hour)
			inspected.Committed(ctx, commit(again, "ON"))
			inspected.Committed(ctx, commit(record("2", 4, statechart.Done), "STALE"))
		}
		conn := connect(t, inspected)
		equal(t, read(t, conn, 10),
			"actor lamp/1", `snapshot lamp/1 {"type":"ON"}`,
			"actor lamp/2", `snapshot lamp/2 {"type":"xstate.init"}`,
			`event lamp/1 {"level":3,"type":"DIM"}`, `event lamp/1 {"output":{"level":3},"type":"done.invoke.x"}`,
			`snapshot lamp/1 {"output":{"level":3},"type":"done.invoke.x"}`,
			"actor lamp/2", `event lamp/2 {"level":3,"type":"ON"}`, `snapshot lamp/2 {"level":3,"type":"ON"}`,
		)
		inspected.Committed(ctx, commit(record("3", 1, statechart.Active), "LAST"))
		equal(t, read(t, conn, 2), "actor lamp/3", `event lamp/3 {"level":3,"type":"LAST"}`)
		_ = conn.CloseNow()
	})
}

func TestAChildHasItsParentsSessionAsParentAndSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent := record("p", 1, statechart.Active)
		parent.Snapshot = json.RawMessage(`{"value": "on", "context": {}, "children": {"kid": {"key": "kid#1", "machine": "lamp"}}}`)
		child := record("", 1, statechart.Active)
		child.Instance = instances.ChildName(parent.Instance, parent.CreatedAt, "kid#1", "lamp")
		child.Parent = &instances.Parent{Instance: "lamp/p", Child: "kid#1"}
		grandchild := record("g", 1, statechart.Active)
		grandchild.Parent = &instances.Parent{Instance: child.Instance.String(), Child: "g#1"}
		inspected := newInspector(t, &store{records: []instances.Record{grandchild, child, parent}})
		conn, name := connect(t, inspected), child.Instance.String()
		equal(t, read(t, conn, 6), // Parents come before their children.
			"actor lamp/p", `snapshot lamp/p {"type":"xstate.init"}`,
			"actor "+name+" of lamp/p child of lamp/p", "snapshot "+name+` of lamp/p {"type":"xstate.init"}`,
			"actor lamp/g of lamp/p child of "+name, `snapshot lamp/g of lamp/p {"type":"xstate.init"}`,
		)
		child.Revision, parent = 2, record("p", 2, statechart.Active)
		inspected.Committed(t.Context(), commit(child, "settle.stop"))
		inspected.Committed(t.Context(), commit(parent, "done.child.kid"))
		got := read(t, conn, 4)
		equal(t, []string{got[0], got[2]},
			"event "+name+` of lamp/p from lamp/p {"level":3,"type":"settle.stop"}`, "event lamp/p from "+name+` {"output":{"level":3},"type":"done.child.kid"}`)
		_ = conn.CloseNow()
	})
}

// A payload of type json.RawMessage is the whole body of the message.
func TestEventsHaveTheirPayloadsWithoutTaskTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inspected := newInspector(t, &store{})
		conn := connect(t, inspected)
		committed := commit(record("1", 1, statechart.Active), "a", "done.dusting", "c", "d", "e", "error.child.kid")
		for i, payload := range []any{
			json.RawMessage(`{"type": "b", "$id": "1", "$task": {"token": "secret"}, "key": 1}`), struct{ Dust int }{2},
			[]int{3}, nil, func() {}, "broken",
		} {
			committed.Events[i].Payload = payload
		}
		inspected.Committed(t.Context(), committed)
		equal(t, read(t, conn, 8)[1:7],
			`event lamp/1 {"key":1,"type":"a"}`, `event lamp/1 {"Dust":2,"type":"done.dusting"}`,
			`event lamp/1 {"type":"c"}`, `event lamp/1 {"type":"d"}`, `event lamp/1 {"type":"e"}`, `event lamp/1 {"error":"broken","type":"error.child.kid"}`)
		_ = conn.CloseNow()
	})
}

func TestANewClientReceives200InstancesActiveOnesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		for i := range 150 {
			s.records = append(s.records, record(fmt.Sprint("done", i), 1, statechart.Done), record(fmt.Sprint("active", i), 1, statechart.Active))
		}
		inspected := newInspector(t, s)
		conn := connect(t, inspected)
		got := read(t, conn, 400)
		inspected.Committed(t.Context(), commit(record("later", 1, statechart.Active), "ON"))
		equal(t, append([]string{got[298], got[398]}, read(t, conn, 1)...), "actor lamp/active149", "actor lamp/done49", "actor lamp/later")
		_ = conn.CloseNow()
	})
}

// The client does not read, and the connection has no buffer. The commits must not wait for the client.
func TestASlowClientIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inspected := newInspector(t, &store{})
		conn, other := connect(t, inspected), connect(t, inspected)
		begin := time.Now()
		for i := range int64(1100) {
			inspected.Committed(t.Context(), commit(record("1", i+1, statechart.Active), "ON"))
			if i == 0 {
				read(t, other, 1)
			}
			read(t, other, 2)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("expected the commits not to wait for the client, but they waited for %v", waited)
		}
		synctest.Wait()
		if _, _, err := conn.Read(t.Context()); err == nil {
			t.Error("expected the slow client to be dropped, but it received a message")
		}
		_ = other.CloseNow()
	})
}

// A client that stops reading without further commits is dropped too. Otherwise, its connection would stay forever.
func TestAClientThatAcceptsNoMessageIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inspected := newInspector(t, &store{records: []instances.Record{record("1", 1, statechart.Active)}})
		conn := connect(t, inspected)
		time.Sleep(11 * time.Second)
		if _, _, err := conn.Read(t.Context()); err == nil {
			t.Error("expected the client to be dropped after 10 seconds, but it received a message")
		}
	})
}

func TestTooManyClientsAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inspected := newInspector(t, &store{})
		var conns []*websocket.Conn
		for range 16 {
			conns = append(conns, connect(t, inspected))
		}
		if status, body := ask(t, inspected, http.MethodGet, "upgrade", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "expected at most 16 clients") {
			t.Errorf("expected the 17th client to be refused with 503 and the limit, got %d and %q", status, body)
		}
		_ = conns[0].CloseNow()
		synctest.Wait()
		for _, conn := range append(conns[1:], connect(t, inspected)) { // One has left, so another may connect.
			_ = conn.CloseNow()
		}
	})
}

// ask sends a request. If `upgrade` is not empty, the request opens a WebSocket.
func ask(t *testing.T, handler http.Handler, method, upgrade, origin string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:7388/inspect", nil)
	if upgrade != "" {
		for key, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(key, value)
		}
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestPagesOfOtherOriginsMayNotConnect(t *testing.T) {
	t.Parallel()
	inspected := newInspectorOf(t, inspector.Config{Store: &store{}, Origins: []string{"http://localhost:5173"}})
	for origin, allowed := range map[string]bool{
		"": true, "http://127.0.0.1:7388": true, "http://localhost:5173": true,
		"https://localhost:5173": false, "http://localhost:5174": false, "http://localhost:7388": false, "https://stately.ai": false, "null": false, "file://": false,
	} {
		// The recorder cannot be upgraded, so an allowed request fails at the upgrade.
		want := map[bool]int{true: http.StatusNotImplemented, false: http.StatusForbidden}[allowed]
		if status, body := ask(t, inspected, http.MethodGet, "upgrade", origin); status != want {
			t.Errorf("origin %q: expected status %d, got %d and %q", origin, want, status, body)
		}
	}
	for _, origin := range []string{"", "*", "localhost:5173", "http://*.example.com", "http://a.example/", "http://a.example/path", "ftp://a.example", "http://u@a.example", "http://[::1", "null"} {
		if err := inspector.CheckOrigin(origin); err == nil || !strings.Contains(err.Error(), "such as http://localhost:5173") {
			t.Errorf("origin %q: expected an error with an example, got %v", origin, err)
		}
	}
}

func TestThePagePassesMessagesOnlyToItsViewer(t *testing.T) {
	t.Parallel()
	inspected := newInspector(t, &store{})
	w := httptest.NewRecorder()
	inspected.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/inspect", nil))
	for _, want := range []string{`src="https://stately.ai/inspect"`, `origin = "https://stately.ai"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("expected the page to contain %s, got\n%s", want, w.Body)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'; frame-src https://stately.ai;") {
		t.Errorf("expected a policy that allows the viewer and this server, got %q", policy)
	}
	if status, _ := ask(t, inspected, http.MethodPost, "", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("expected 405 for POST, got %d", status)
	}
}
