package otlp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/host/internal/otlp"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparentIsParsedAndFormatted(t *testing.T) {
	t.Parallel()
	for _, good := range []string{traceparent, strings.TrimSuffix(traceparent, "1") + "0"} {
		c, ok := otlp.Parse(good)
		if !ok || c.String() != good || c.Sampled != strings.HasSuffix(good, "1") {
			t.Errorf("%s: got %s, %v, sampled %v", good, c, ok, c.Sampled)
		}
		child := c.Child(c.Sampled)
		if child.TraceID != c.TraceID || child.SpanID == c.SpanID || child.SpanID == [8]byte{} || child.Sampled != c.Sampled {
			t.Errorf("got the child %s of %s", child, c)
		}
	}
	if later, ok := otlp.Parse("01" + traceparent[2:] + "-more"); !ok || later.String() != traceparent {
		t.Errorf("got %s, %v for a later version", later, ok)
	}
	for _, bad := range []string{
		"", "00", strings.ToUpper(traceparent), "ff" + traceparent[2:], traceparent + "-more", traceparent[:54] + "g", "00-" + strings.Repeat("0", 32) + traceparent[35:],
		traceparent[:36] + strings.Repeat("0", 16) + "-01", traceparent[1:],
	} {
		if c, ok := otlp.Parse(bad); ok {
			t.Errorf("%q was parsed as %s", bad, c)
		}
	}
	if first := otlp.New(); !first.Sampled || first.TraceID == otlp.New().TraceID {
		t.Error("want a new, sampled trace")
	}
}

func TestXRayHeaderIsParsed(t *testing.T) {
	t.Parallel()
	const root, parent = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736", "Parent=00f067aa0ba902b7"
	for header, want := range map[string]string{
		root + ";" + parent + ";Sampled=1":                          traceparent,
		"Self=1-x;" + parent + "; " + root + ";Sampled=1;Lineage=a": traceparent,
		root + ";" + parent + ";Sampled=0":                          strings.TrimSuffix(traceparent, "1") + "0",
		root + ";" + parent:                                         strings.TrimSuffix(traceparent, "1") + "0",
		root:                                                        "", // An HTTP API sends a header without a span.
		"":                                                          "",
		parent + ";Sampled=1":                                       "",
		strings.Replace(root, "=1", "=2", 1) + ";" + parent:     "",
		strings.Replace(root, "4bf9", "wxyz", 1) + ";" + parent: "",
		root + ";Parent=00f067aa0ba902xx":                       "",
		root + ";Parent=0000000000000000":                       "",
		strings.Replace(root, "35-", "", 1) + ";" + parent:      "",
	} {
		c, ok := otlp.ParseXRay(header)
		if ok != (want != "") || ok && c.String() != want {
			t.Errorf("%q: got %s, %v, want %q", header, c, ok, want)
		}
	}
}

func TestSpansAreSentInTheJSONFormOfOTLP(t *testing.T) {
	t.Parallel()
	var path, body, key string
	answer, status := `{}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		path, body, key = r.URL.Path, string(text), r.Header.Get("Api-Key")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	endpoint, err := url.Parse(server.URL + "/collector/")
	if err != nil {
		t.Fatal(err)
	}
	exporter := otlp.NewExporter(server.Client(), endpoint, map[string]string{"api-key": "k"}, []otlp.Attribute{{Key: "service.name", Value: "settle"}})
	place, _ := otlp.Parse(traceparent)
	spans := []otlp.Span{{
		SpanContext: place, Parent: [8]byte{1}, Name: "event VERIFY", Kind: otlp.Consumer, Start: time.Unix(1, 2), End: time.Unix(3, 4),
		Attributes: []otlp.Attribute{{Key: "settle.instance", Value: "signup/42"}}, Failed: true,
	}, {SpanContext: place, Name: "first", Kind: otlp.Internal, Start: time.Unix(1, 0), End: time.Unix(1, 0)}}
	if err := exporter.Export(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	const want = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"settle"}}]},"scopeSpans":[{"scope":{"name":"github.com/settle-run/settle"},` +
		`"spans":[{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","parentSpanId":"0100000000000000","name":"event VERIFY","kind":5,` +
		`"startTimeUnixNano":"1000000002","endTimeUnixNano":"3000000004","attributes":[{"key":"settle.instance","value":{"stringValue":"signup/42"}}],"status":{"code":2}},` +
		`{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","name":"first","kind":1,"startTimeUnixNano":"1000000000","endTimeUnixNano":"1000000000","attributes":[]}]}]}]}`
	if path != "/collector/v1/traces" || key != "k" || sorted(t, body) != sorted(t, want) {
		t.Errorf("got %s with the key %q:\n%s\nwant\n%s", path, key, body, want)
	}
	for _, c := range []struct {
		status       int
		answer, want string
	}{{http.StatusServiceUnavailable, ``, "got 503"}, {http.StatusOK, `{"partialSuccess":{"rejectedSpans":"1"}}`, "1 were rejected"}} {
		status, answer = c.status, c.answer
		if err := exporter.Export(t.Context(), spans); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// sorted returns the JSON with the keys of each object in order.
func sorted(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("expected JSON, got %s: %v", text, err)
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
