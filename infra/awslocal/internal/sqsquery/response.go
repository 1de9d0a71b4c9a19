package sqsquery

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const xmlNamespace = "http://queue.amazonaws.com/doc/2012-11-05/"

// Response converts the JSON output of an operation to XML.
func Response(operation string, answer []byte, requestID string) []byte {
	var output map[string]any
	if err := json.Unmarshal(answer, &output); err != nil {
		panic("sqsquery: expected an answer that is a JSON object: " + err.Error()) // the model created the answer
	}
	w := &writer{operation: operation}
	w.raw(xml.Header, `<`, operation, `Response xmlns="`, xmlNamespace, `">`)
	w.element(operation+"Result", output)
	w.raw(`<ResponseMetadata>`)
	w.element("RequestId", requestID)
	w.raw(`</ResponseMetadata></`, operation, `Response>`)
	return w.buffer.Bytes()
}

// Error writes an error in XML.
func Error(err *wire.Error, requestID string) []byte {
	code, kind := err.QueryCode, "Sender"
	if code == "" {
		code = err.Code
	}
	if err.Status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	w := &writer{}
	w.raw(xml.Header, `<ErrorResponse xmlns="`, xmlNamespace, `"><Error>`)
	w.element("Type", kind)
	w.element("Code", code)
	w.element("Message", err.Message)
	w.raw(`<Detail/></Error>`)
	w.element("RequestId", requestID)
	w.raw(`</ErrorResponse>`)
	return w.buffer.Bytes()
}

type writer struct {
	operation string
	buffer    bytes.Buffer
}

func (w *writer) raw(parts ...string) {
	for _, part := range parts {
		w.buffer.WriteString(part)
	}
}

// element writes a JSON value as an element.
func (w *writer) element(name string, value any) {
	w.raw("<", name, ">")
	if object, ok := value.(map[string]any); ok {
		for _, member := range slices.Sorted(maps.Keys(object)) {
			w.member(member, object[member])
		}
	} else {
		// Escaping fails only if writing fails, and a bytes.Buffer never fails.
		_ = xml.EscapeText(&w.buffer, fmt.Append(nil, value))
	}
	w.raw("</", name, ">")
}

// member writes a member of a JSON object. Lists and maps are flat: no element encloses their items.
func (w *writer) member(name string, value any) {
	switch value := value.(type) {
	case []any:
		itemName := elements[name].name
		if name == "Successful" {
			itemName = w.operation + "ResultEntry"
		}
		for _, item := range value {
			w.element(itemName, item)
		}
	case map[string]any:
		item := elements[name]
		for _, key := range slices.Sorted(maps.Keys(value)) {
			w.raw("<", item.name, ">")
			w.element(item.key, key)
			w.element(item.value, value[key])
			w.raw("</", item.name, ">")
		}
	default:
		w.element(name, value)
	}
}
