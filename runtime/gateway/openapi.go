package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/payload"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

func (a *api) getOpenAPI(r *http.Request) (reply, error) {
	document, err := a.openAPI()
	if err != nil {
		return reply{}, err
	}
	return unlessMatch(r, entityTag(0, document), document), nil
}

// buildOpenAPI returns the OpenAPI 3.1 document of this API. Instead of the parameters machine, name and provider, the
// document has one path for each hosted machine, webhook and callback.
func (a *api) buildOpenAPI() ([]byte, error) {
	paths := object{}
	for _, r := range apiRoutes {
		for path, variant := range a.variants(r) {
			item, ok := paths[path].(object)
			if !ok {
				item = object{}
				paths[path] = item
			}
			item[strings.ToLower(r.method)] = a.operation(r, path, variant)
		}
	}
	schemas := object{
		"Problem":  payload.Schema(reflect.TypeFor[problem](), payload.Output),
		"Queued":   payload.Schema(reflect.TypeFor[sentView](), payload.Output),
		"Applied":  payload.Schema(reflect.TypeFor[appliedView](), payload.Output),
		"Instance": payload.Schema(reflect.TypeFor[instanceview.Instance](), payload.Output),
		"Machines": object{"type": "object", "required": []string{"machines"}, "properties": object{
			"machines": object{"type": "array", "items": payload.Schema(reflect.TypeFor[machineView](), payload.Output)},
		}},
	}
	for _, id := range a.machines.IDs() {
		schemas[eventSchema(id)] = a.eventsOf(id)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"servers": []object{{"url": cmp.Or(a.config.BasePath, "/")}},
		"info": object{
			"title": "Settle", "version": a.version(),
			"description": "Sends events to instances and shows them. A payload's code may require more than its schema: then the answer is 400 with the code payload.",
		},
		"paths": paths, "components": object{"schemas": schemas},
	})
}

// version returns the version of the document. It lists the hosted machines with their versions, because the document
// depends on them.
func (a *api) version() string {
	var all []string
	for _, id := range a.machines.IDs() {
		all = append(all, fmt.Sprintf("%s-%d", id, a.machines.Versions(id)[0].Version()))
	}
	return strings.Join(all, "+")
}

// variant is the machine, webhook or callback to which a documented path belongs. It is empty for other paths.
type variant struct{ machine, name string }

// variants returns the documented paths of a route.
func (a *api) variants(r route) map[string]variant {
	paths := map[string]variant{}
	switch {
	case strings.Contains(r.path, "{machine}"):
		for _, id := range a.machines.IDs() {
			paths[strings.Replace(r.path, "{machine}", id, 1)] = variant{machine: id}
		}
	case r.path == webhookPath:
		for name := range a.config.Webhooks {
			paths[strings.Replace(r.path, "{name}", name, 1)] = variant{name: name}
		}
	case r.path == callbackPath:
		for name := range a.config.Callbacks {
			paths[strings.Replace(r.path, "{provider}", name, 1)] = variant{name: name}
		}
	case r.path == aliasPath && r.method == http.MethodPost:
		paths["/aliases/{alias}"+aliasEventSuffix] = variant{}
	default:
		paths[strings.Replace(r.path, "{alias...}", "{alias}", 1)] = variant{}
	}
	return paths
}

// operation returns the operation of a route for a documented path.
func (a *api) operation(r route, path string, v variant) object {
	responses := object{}
	for _, status := range r.success {
		responses[strconv.Itoa(status)] = a.success(r, status)
	}
	for status, codes := range r.problemsOf() {
		responses[strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ": " + strings.Join(codes, ", "),
			"content": object{"application/problem+json": object{"schema": object{
				"$ref": ref("Problem"), "properties": object{"code": object{"enum": codes}},
			}}},
		}
	}
	id := r.id
	if suffix := v.machine + v.name; suffix != "" {
		id += "_" + suffix
	}
	operation := object{"operationId": id, "summary": r.summary, "responses": responses}
	if parameters := a.parameters(r, path); len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if r.method == http.MethodPost {
		operation["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": a.body(r, v)}}}
	}
	return operation
}

func ref(schema string) string { return "#/components/schemas/" + schema }

// eventSchema returns the name of the schema of a machine's events. A machine's ID contains only characters that are
// allowed in such a name.
func eventSchema(machine string) string { return "Event." + machine }

// success returns a route's response with the given success status.
func (a *api) success(r route, status int) object {
	content := func(schema object, description string) object {
		return object{"description": description, "content": object{"application/json": object{"schema": schema}}}
	}
	switch {
	case status == http.StatusNotModified:
		return object{"description": "If-None-Match has the ETag of the current answer."}
	case status == http.StatusAccepted:
		return content(object{"$ref": ref("Queued")}, "The event is queued. With wait, the instance has not applied it and settled in time.")
	case r.method == http.MethodPost && r.path != webhookPath:
		return content(object{"$ref": ref("Applied")}, "With wait: the settled instance after the event.")
	case r.path == webhookPath:
		return content(object{}, "The request leads to no event.")
	case r.id == "listMachines":
		return content(object{"$ref": ref("Machines")}, "The machines.")
	case r.id == "getHealth":
		return content(object{"type": "object", "required": []string{"status"}, "properties": object{"status": object{"const": "ok"}}}, "The process is running.")
	case r.id == "getOpenAPI":
		return content(object{"type": "object"}, "The document.")
	default:
		return content(object{"$ref": ref("Instance")}, "The instance.")
	}
}

// parameters returns the parameters of a route for a documented path.
func (a *api) parameters(r route, path string) []object {
	var parameters []object
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			parameters = append(parameters, object{"name": name, "in": "path", "required": true, "description": pathParameters[name], "schema": object{"type": "string"}})
		}
	}
	add := func(name, in, description string, schema object) {
		parameters = append(parameters, object{"name": name, "in": in, "description": description, "schema": schema})
	}
	if slices.Contains(r.codes, "query") {
		add("wait", "query", "Wait until the instance has applied the event and is settled.", object{"type": "string", "enum": []string{string(producer.Settled)}})
		add("timeout", "query", fmt.Sprintf("How long to wait, with wait: a duration such as 10s or 500ms, at most %v.", WaitMax),
			object{"type": "string", "default": WaitDefault.String(), "examples": []string{"10s"}})
		add("Idempotency-Key", "header", "The event's ID. An event counts once, however often it is sent with its ID.", object{"type": "string", "minLength": 1, "maxLength": producer.EventIDBytesMax})
	}
	if slices.Contains(r.success, http.StatusNotModified) {
		add("If-None-Match", "header", "ETags of earlier answers.", object{"type": "string"})
	}
	return parameters
}

// pathParameters describes each path parameter.
var pathParameters = map[string]string{
	"id":    "The ID of the instance, without its machine.",
	"alias": "The alias. Encode its slashes as %2F.",
	"until": "The end of the address's validity.",
	"key":   "The key of the address.",
}

// body returns the schema of a request's body.
func (a *api) body(r route, v variant) object {
	switch {
	case v.machine != "":
		return object{"$ref": ref(eventSchema(v.machine))}
	case r.path == aliasPath:
		var all []object
		for _, id := range a.machines.IDs() {
			all = append(all, object{"$ref": ref(eventSchema(id))})
		}
		return object{"anyOf": all}
	default: // The third party decides.
		return object{}
	}
}

// eventsOf returns the schema of the events that at least one hosted version of the machine accepts.
func (a *api) eventsOf(machine string) object {
	types := map[string][]object{}
	for _, version := range a.machines.Versions(machine) {
		for typ, of := range version.Describe().Payloads {
			if isOfRuntime(version, typ) {
				continue
			}
			schema := eventOf(typ, of)
			if !slices.ContainsFunc(types[typ], func(other object) bool { return reflect.DeepEqual(schema, other) }) {
				types[typ] = append(types[typ], schema)
			}
		}
	}
	var all []object
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		all = append(all, types[typ]...)
	}
	if len(all) == 0 {
		return object{"not": object{}} // The machine accepts no event from outside.
	}
	return object{"anyOf": all}
}

// isOfRuntime reports whether only the runtime may send events of the type, even if the machine declares it.
// Machines.Accept rejects such events.
func isOfRuntime(machine durable.Machine, typ string) bool {
	own := []string{durable.TokenExpired, durable.AliasTaken, statechart.CommunicationError}
	return slices.Contains(own, typ) || slices.Contains(machine.Describe().WorkflowEnds, typ) || strings.HasPrefix(typ, statechart.ReservedPrefix)
}

// eventOf returns the schema of an event of type typ. `of` is the Go type of its payload, or nil if the event has none.
func eventOf(typ string, of reflect.Type) object {
	schema := object{}
	if of != nil {
		schema = payload.Schema(of, payload.Input)
	}
	properties, ok := schema["properties"].(object)
	if !ok { // The type decodes itself, or is a map.
		schema, properties = object{"type": "object"}, object{}
	}
	maps.DeleteFunc(properties, func(key string, _ any) bool { return payload.Reserved(key) })
	properties["type"] = object{"const": typ}
	properties["$id"] = object{"type": "string", "maxLength": producer.EventIDBytesMax, "description": "The event's ID, in place of Idempotency-Key."}
	schema["properties"], schema["required"], schema["title"] = properties, []string{"type"}, typ
	return schema
}
