package payload_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/settle-run/settle/runtime/payload"
)

type (
	// Shadow is embedded in a struct with a key of the same name in another case.
	Shadow    struct{ Inside int8 }
	shadowed2 struct {
		Shadow
		Name   string `json:"shadow"`
		Quoted *int   `json:"quoted,string,omitempty"`
		Raw    json.RawMessage
		Bytes  []byte   `json:"bytes"`
		List   []uint16 `json:"list"`
	}
)

func TestSchemasDescribeWhatEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	const int8s = `{"type": "integer", "minimum": -128, "maximum": 127}`
	for _, c := range []struct {
		typ  reflect.Type
		use  payload.Use
		want string
	}{
		{nil, payload.Input, `{}`},
		{reflect.TypeFor[any](), payload.Input, `{}`},
		{reflect.TypeFor[own](), payload.Input, `{}`},
		{reflect.TypeFor[time.Time](), payload.Input, `{"type": "string", "format": "date-time"}`},
		{reflect.TypeFor[json.Number](), payload.Input, `{"type": "number"}`},
		{reflect.TypeFor[uint64](), payload.Input, `{"type": "integer", "minimum": 0}`},
		{reflect.TypeFor[int64](), payload.Input, `{"type": "integer"}`},
		{reflect.TypeFor[map[string]bool](), payload.Input, `{"type": "object", "additionalProperties": {"type": "boolean"}}`},
		{reflect.TypeFor[map[int]bool](), payload.Input, `{"type": "object"}`},
		{reflect.TypeFor[recursive](), payload.Input, `{"type": "object", "properties": {"Next": {}, "Level": {"type": "integer"}}}`},
		{reflect.TypeFor[shadowed2](), payload.Input, `{"type": "object", "properties": {"Inside": ` + int8s + `, "shadow": {"type": "string"},
			"quoted": {"type": "string"}, "Raw": {}, "bytes": {"type": "string", "contentEncoding": "base64"},
			"list": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 65535}}}}`},
		{reflect.TypeFor[*shadowed2](), payload.Output, `{"type": ["object", "null"], "required": ["Inside", "shadow", "Raw", "bytes", "list"], "properties": {"Inside": ` + int8s + `, "shadow": {"type": "string"},
			"quoted": {"type": "string"}, "Raw": {}, "bytes": {"type": ["string", "null"], "contentEncoding": "base64"},
			"list": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 65535}}}}`},
		// The key of the outer field City is "town". So the key "City" comes from the embedded struct Outer.
		{reflect.TypeFor[shadowed](), payload.Input, `{"type": "object", "properties": {"town": {"type": "string"}, "City": {"type": "string"}}}`},
	} {
		var got, want any
		text, err := json.Marshal(payload.Schema(c.typ, c.use))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("set", func(list []any) map[any]bool {
			set := map[any]bool{}
			for _, element := range list {
				set[element] = true
			}
			return set
		})); diff != "" {
			t.Errorf("%v: %s", c.typ, diff)
		}
	}
}

// TestSamplesMatchTheirSchemas compares the two ways to describe a type.
func TestSamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{
		reflect.TypeFor[plain](), reflect.TypeFor[embeds](), reflect.TypeFor[shadowed](), reflect.TypeFor[recursive](), reflect.TypeFor[shadowed2](), reflect.TypeFor[sample](),
	} {
		for _, use := range []payload.Use{payload.Input, payload.Output} {
			object := map[string]any{}
			for _, field := range payload.Sample(typ, time.Now(), true) {
				var value any
				if err := json.Unmarshal(field.Value, &value); err != nil {
					t.Fatal(err)
				}
				object[field.Key] = value
			}
			text, err := json.Marshal(payload.Schema(typ, use))
			if err != nil {
				t.Fatal(err)
			}
			var schema jsonschema.Schema
			if err := json.Unmarshal(text, &schema); err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{"type", "$task"} { // Sample leaves the keys of the runtime out.
				object[own] = "x"
			}
			resolved, err := schema.Resolve(nil)
			if err == nil {
				err = resolved.Validate(object)
			}
			if err != nil {
				t.Errorf("%v: expected the sample %v to match, got %v", typ, object, err)
			}
		}
	}
}
