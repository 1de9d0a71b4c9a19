package asl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// numberMax is the maximum for seconds, attempts and other numbers in a definition.
const numberMax = 99_999_999

// object reads the fields of a JSON object in a definition. Errors become findings. The method `done` adds a finding
// for each field that was not read.
type object struct {
	path     string
	fields   map[string]any
	taken    map[string]bool
	bad      map[string]bool // fields that have a finding
	findings *Findings
}

func newObject(fields map[string]any, path string, findings *Findings) *object {
	return &object{path: path, fields: fields, taken: make(map[string]bool), bad: make(map[string]bool), findings: findings}
}

// find adds a finding about a field.
func (o *object) find(name, format string, args ...any) {
	o.bad[name] = true
	o.findings.add(o.path+"/"+name, schemaInvalid, "Field '%s': %s", name, fmt.Sprintf(format, args...))
}

// failed reports whether a field already has a finding.
func (o *object) failed(name string) bool { return o.bad[name] }

// take returns a field's value and marks it as read. It returns false if the field is absent.
func (o *object) take(name string) (any, bool) {
	o.taken[name] = true
	value, ok := o.fields[name]
	return value, ok
}

func (o *object) has(name string) bool {
	_, ok := o.fields[name]
	return ok
}

// comment reads the field Comment, which has no effect.
func (o *object) comment() {
	if value, ok := o.take("Comment"); ok && !isString(value) {
		o.find("Comment", "expected a string, got %s", document.Encode(value))
	}
}

// unsupportedFields lists the fields that Step Functions supports but this package does not support, and the reasons.
var unsupportedFields = map[string]string{
	"Assign":                         "awslocal does not support variables",
	"Arguments":                      "awslocal does not support JSONata: write Parameters",
	"Output":                         "awslocal does not support JSONata: write ResultPath and OutputPath",
	"Condition":                      "awslocal does not support JSONata: write Variable and a comparison operator",
	"Items":                          "awslocal does not support JSONata: write ItemsPath",
	"Credentials":                    "awslocal has one account and no roles",
	"ItemReader":                     "awslocal does not support distributed maps",
	"ItemBatcher":                    "awslocal does not support distributed maps",
	"ResultWriter":                   "awslocal does not support distributed maps",
	"Label":                          "awslocal does not support distributed maps",
	"ToleratedFailureCount":          "awslocal does not support distributed maps",
	"ToleratedFailureCountPath":      "awslocal does not support distributed maps",
	"ToleratedFailurePercentage":     "awslocal does not support distributed maps",
	"ToleratedFailurePercentagePath": "awslocal does not support distributed maps",
}

// done adds a finding for each field that was not read.
func (o *object) done() {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if o.taken[name] {
			continue
		}
		if why, known := unsupportedFields[name]; known {
			o.findings.add(o.path+"/"+name, notSupportedHere, "Field '%s': %s", name, why)
		} else {
			o.findings.add(o.path+"/"+name, schemaInvalid, "Field '%s' is not supported here", name)
		}
	}
}

// text returns a string, or "" if the field is absent.
func (o *object) text(name string) string {
	value, ok := o.take(name)
	if !ok {
		return ""
	}
	text, ok := value.(string)
	if !ok || text == "" {
		o.find(name, "expected a non-empty string, got %s", document.Encode(value))
	}
	return text
}

// required returns a required string.
func (o *object) required(name string) string {
	if !o.has(name) {
		o.find(name, "it is required")
	}
	return o.text(name)
}

// number returns the integer in a field, which must be from `lowest` to `highest`. If the field is absent, number
// returns the default, `without`.
func (o *object) number(name string, lowest, highest, without int) int {
	value, ok := o.take(name)
	if !ok {
		return without
	}
	number, _ := value.(json.Number)
	n, err := strconv.Atoi(string(number))
	if err != nil || n < lowest || n > highest {
		o.find(name, "expected an integer between %d and %d, got %s", lowest, highest, document.Encode(value))
	}
	return n
}

// numberOrPath returns a number from a field, or a path from the field with the suffix Path.
func (o *object) numberOrPath(name string, lowest int) Number {
	s := Number{field: name + "Path", path: o.pathField(name+"Path", jsonpath.ParseReference)}
	s.Set = s.path != nil || o.has(name)
	if s.path != nil && o.has(name) {
		o.find(name, "it cannot be combined with %sPath", name)
	}
	s.value = o.number(name, lowest, numberMax, 0)
	return s
}

// pathField returns the path in a field, or nil if the field is absent.
func (o *object) pathField(name string, parse func(string) (jsonpath.Path, error)) *jsonpath.Path {
	if !o.has(name) {
		return nil
	}
	text := o.text(name)
	if o.failed(name) {
		return nil
	}
	path, err := parse(text)
	if err != nil {
		o.find(name, "%v", err)
		return nil
	}
	return &path
}

// filter returns InputPath, OutputPath or ItemsPath.
func (o *object) filter(name string) Filter {
	if value, ok := o.take(name); ok && value == nil {
		return Filter{null: true}
	}
	path := o.pathField(name, jsonpath.Parse)
	if path != nil && path.String() == "$" {
		path = nil
	}
	return Filter{path: path}
}

func (o *object) resultPath() ResultPath {
	if value, ok := o.take("ResultPath"); ok && value == nil {
		return ResultPath{null: true}
	}
	path := o.pathField("ResultPath", jsonpath.ParseReference)
	switch {
	case path == nil || path.String() == "$":
		return ResultPath{}
	case path.Context():
		o.find("ResultPath", "it cannot write to the context object")
	}
	return ResultPath{path: path}
}

// textOrPath returns a string from a field, or an expression from the field with the suffix Path.
func (o *object) textOrPath(name string) Text {
	t := Text{value: o.text(name)}
	if !o.has(name + "Path") {
		return t
	}
	if o.has(name) {
		o.find(name, "it cannot be combined with %sPath", name)
	}
	text := o.text(name + "Path")
	if o.failed(name + "Path") {
		return t
	}
	e, err := parseExpression(text)
	if err != nil {
		o.find(name+"Path", "%v", err)
		return t
	}
	t.expression = e
	return t
}

// object returns the object in a field, or nil if the field is absent.
func (o *object) object(name string) *object {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		o.find(name, "expected an object, got %s", document.Encode(value))
		return nil
	}
	return newObject(fields, o.path+"/"+name, o.findings)
}

// objects returns the objects in the array of a field.
func (o *object) objects(name string) []*object {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	elements, ok := value.([]any)
	if !ok {
		o.find(name, "expected an array, got %s", document.Encode(value))
		return nil
	}
	var objects []*object
	for i, element := range elements {
		path := fmt.Sprintf("%s/%s[%d]", o.path, name, i)
		fields, ok := element.(map[string]any)
		if !ok {
			o.bad[name] = true
			o.findings.add(path, schemaInvalid, "expected an object, got %s", document.Encode(element))
			continue
		}
		objects = append(objects, newObject(fields, path, o.findings))
	}
	return objects
}
