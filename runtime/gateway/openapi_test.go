package gateway_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/payload"
	"github.com/settle-run/settle/runtime/statechart"
)

// openAPI has the parts of an OpenAPI document that the tests read.
type openAPI struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]json.RawMessage }
}

type operation struct {
	OperationID string
	RequestBody *struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

// compiled caches compiled schemas by document and schema. Compiling takes milliseconds, and tests share documents.
var compiled sync.Map

// schema compiles a schema of the document.
func (d openAPI) schema(t *testing.T, schema json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(map[string]any{"allOf": []json.RawMessage{schema}, "$defs": d.Components.Schemas})
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/"))
	if known, ok := compiled.Load(string(text)); ok {
		return known.(*jsonschema.Resolved)
	}
	var parsed jsonschema.Schema
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	compiled.Store(string(text), resolved)
	return resolved
}

// operation returns the documented operation for a request.
func (d openAPI) operation(r *http.Request) (operation, bool) {
	if path.Clean(r.URL.Path) != r.URL.Path { // No route has such a path.
		return operation{}, false
	}
	for _, documented := range slices.Backward(slices.Sorted(maps.Keys(d.Paths))) { // Reverse order puts a longer path before its prefix.
		pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllStringFunc(regexp.QuoteMeta(documented), func(parameter string) string {
			if parameter == `\{alias\}` { // An alias may contain slashes.
				return ".+"
			}
			return "[^/]+"
		})
		if found, ok := d.Paths[documented][strings.ToLower(r.Method)]; ok && regexp.MustCompile("^"+pattern+"$").MatchString(r.URL.Path) {
			return found, true
		}
	}
	return operation{}, false
}

func documentOf(t *testing.T, handler http.Handler) (document openAPI, text []byte) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("expected a document, got %d %s, %v", answer.Code, answer.Body, err)
	}
	return document, answer.Body.Bytes()
}

// documented returns a handler that compares each answer with the document.
func documented(t *testing.T, handler http.Handler) http.Handler {
	t.Helper()
	document := sync.OnceValue(func() openAPI { d, _ := documentOf(t, handler); return d })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if found, ok := document().operation(r); ok {
			document().check(t, r, found, answer)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

func (d openAPI) check(t *testing.T, r *http.Request, found operation, answer *httptest.ResponseRecorder) {
	t.Helper()
	response, ok := found.Responses[strconv.Itoa(answer.Code)]
	if !ok {
		t.Errorf("%s %s: the status %d of %s is not documented: %s", r.Method, r.URL, answer.Code, found.OperationID, answer.Body)
		return
	}
	content, ok := response.Content[answer.Header().Get("Content-Type")]
	if answer.Code == http.StatusNotModified {
		return
	}
	var body any
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || !ok {
		t.Errorf("%s %s: expected documented JSON, got %d %s, %v", r.Method, r.URL, answer.Code, answer.Body, err)
		return
	}
	if err := d.schema(t, content.Schema).Validate(body); err != nil {
		t.Errorf("%s %s: the answer %d %s does not match the document: %v", r.Method, r.URL, answer.Code, answer.Body, err)
	}
}

// allParties is a configuration with a webhook and a callback.
func allParties() gateway.Config {
	return gateway.Config{
		Webhooks:  github(webhookSecret),
		Callbacks: map[string]gateway.Callback{"acme": {Machine: "signup", Verify: verifyAcme, Read: readAcme}},
		Now:       func() time.Time { return epoch },
	}
}

// TestOpenAPIDocumentIsValid uses the JSON Schema of the OpenAPI Initiative, with its dynamic references resolved. That
// schema does not cover the JSON Schemas in a document, so the test compiles them.
func TestOpenAPIDocumentIsValid(t *testing.T) {
	t.Parallel()
	document, text := documentOf(t, newWorld(t, allParties()))
	source, err := os.ReadFile("testdata/npm/node_modules/@seriousme/openapi-schema-validator/schemas/v3.1/schema.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the npm package @seriousme/openapi-schema-validator is not installed: run `make test`") // Tests use no network, so only make installs npm packages.
	}
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(source, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(parsed); err != nil {
		t.Error(err)
	}
	ids := map[string]bool{}
	for path, operations := range document.Paths {
		for method, o := range operations {
			if ids[o.OperationID] {
				t.Errorf("%s %s: expected an ID of its own, got %s twice", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
			for _, response := range o.Responses {
				for _, content := range response.Content {
					document.schema(t, content.Schema)
				}
			}
			if o.RequestBody != nil {
				document.schema(t, o.RequestBody.Content["application/json"].Schema)
			}
		}
	}
	parsed["paths"].(map[string]any)["/healthz"].(map[string]any)["get"].(map[string]any)["parameters"] = "none"
	if err := resolved.Validate(parsed); err == nil {
		t.Error("expected the schema to reject a wrong document")
	}
}

// TestDocumentAndRoutesAgree requests each documented path. It compares the routes that answered with all routes.
func TestDocumentAndRoutesAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, allParties())
	w.table.put(t, "42", 7)
	w.table.claim("acme%2F7", "42")
	document, _ := documentOf(t, w)
	answered := map[string]bool{}
	for path, operations := range document.Paths {
		for method := range operations {
			target := strings.NewReplacer("{id}", "42", "{alias}", "acme%2F7", "{until}", "3630", "{key}", "ab").Replace(path)
			r := httptest.NewRequest(strings.ToUpper(method), target, strings.NewReader(`{"type":"RESEND"}`))
			answer := httptest.NewRecorder()
			w.api.ServeHTTP(answer, r)
			var problem struct{ Code string }
			if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil || problem.Code == "no_route" || problem.Code == "method" {
				t.Errorf("%s %s: expected an answer of the route, got %d %s", method, path, answer.Code, answer.Body)
			}
			answered[r.Pattern] = true
		}
	}
	want := gateway.RoutePatterns()
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(answered))); diff != "" {
		t.Errorf("expected each route to have a documented path: %s", diff)
	}
}

// TestDocumentedEventsAreAccepted sends a sample of each documented event, and of each declared event, to Accept.
func TestDocumentedEventsAreAccepted(t *testing.T) {
	t.Parallel()
	settled := []string{statechart.Settled}
	// Only the runtime may send AliasTaken and TokenExpired.
	lodger := durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "lodger", Version: 1, Initial: "in", States: []statechart.State[struct{}]{{ID: "in", Tags: settled}},
		Payloads: statechart.Payloads{durable.AliasTaken: statechart.NoPayload(), durable.TokenExpired: statechart.NoPayload(), "VERIFY": statechart.PayloadOf[map[string]any]()},
	}), durable.MachineConfig{})
	set, err := durable.NewMachines(signup(), durable.Host(job.New(nil, job.Config{}), durable.MachineConfig{}), lodger)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := gateway.New(set, &queue{}, &table{}, gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	document, _ := documentOf(t, handler)
	for _, id := range set.IDs() {
		schema := document.schema(t, document.Components.Schemas["Event."+id])
		machine, err := set.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		for typ, of := range machine.Describe().Payloads {
			event := map[string]any{"type": typ, "$id": "sample-1"}
			if of != nil && of.Kind() == reflect.Struct {
				for _, field := range payload.Sample(of, epoch, true) {
					event[field.Key] = field.Value
				}
			}
			body, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			var decoded any
			if err := json.Unmarshal(body, &decoded); err != nil {
				t.Fatal(err)
			}
			_, accepted := set.Accept(instances.ID{Machine: id, ID: "1"}, body)
			if matches := schema.Validate(decoded); (matches == nil) != (accepted == nil) {
				t.Errorf("%s: expected schema and gateway to agree on %s, got %v and %v", id, body, matches, accepted)
			}
		}
		for _, wrong := range []any{map[string]any{"type": "NOSUCH"}, map[string]any{}, "RESEND", map[string]any{"type": durable.AliasTaken}} {
			if schema.Validate(wrong) == nil {
				t.Errorf("%s: expected the schema to reject %v", id, wrong)
			}
		}
	}
}

// TestTemplateHasEachRoute compares the routes of the deployed HTTP API with the routes of the gateway.
func TestTemplateHasEachRoute(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile("../../infra/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployed, want []string
	for _, match := range regexp.MustCompile(`(?m)RouteKey: (.*)$`).FindAllStringSubmatch(string(template), -1) {
		deployed = append(deployed, match[1])
	}
	for _, pattern := range gateway.RoutePatterns() {
		want = append(want, strings.NewReplacer("{alias...}", "{alias+}", "{name}", webhook.Name).Replace(pattern))
	}
	slices.Sort(deployed)
	slices.Sort(want)
	if diff := cmp.Diff(want, deployed); diff != "" {
		t.Errorf("expected the template to have each route of the gateway: %s", diff)
	}
}
