package awslocal

import (
	"encoding/json"
	"hash/crc32"
	"maps"
	"net/http"
	"strconv"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const jsonType = "application/x-amz-json-1.0"

// writeJSON writes the answer, or the error if it is not nil, in AWS JSON 1.0.
func writeJSON(w http.ResponseWriter, namespace string, answer []byte, err *wire.Error) {
	if err != nil {
		writeJSONError(w, namespace, err)
		return
	}
	write(w, http.StatusOK, jsonType, answer)
}

// writeDynamo is writeJSON plus the checksum header that DynamoDB clients verify.
func writeDynamo(w http.ResponseWriter, answer []byte, err *wire.Error) {
	status := http.StatusOK
	if err != nil {
		status, answer = statusOf(err), errorJSON(dynamoNamespace, err)
	}
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(answer)), 10))
	write(w, status, jsonType, answer)
}

// writeJSONError writes an error in AWS JSON 1.0. SQS has migrated from the query protocol, so for SQS a header also
// carries the query protocol's error code.
func writeJSONError(w http.ResponseWriter, namespace string, err *wire.Error) {
	if namespace == sqsNamespace {
		code := err.QueryCode
		if code == "" {
			code = err.Code
		}
		fault := "Sender"
		if statusOf(err) >= http.StatusInternalServerError {
			fault = "Receiver"
		}
		w.Header().Set("x-amzn-query-error", code+";"+fault)
	}
	write(w, statusOf(err), jsonType, errorJSON(namespace, err))
}

// writeXML writes an answer or an error body in the query protocol.
func writeXML(w http.ResponseWriter, err *wire.Error, body []byte) {
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
	}
	write(w, status, "text/xml", body)
}

func errorJSON(namespace string, err *wire.Error) []byte {
	members := map[string]any{}
	maps.Copy(members, err.Members)
	members["__type"] = namespace + "#" + err.Code
	members["message"] = err.Message
	body, failed := json.Marshal(members)
	if failed != nil {
		panic("awslocal: cannot encode an error's members: " + failed.Error())
	}
	return body
}

func statusOf(err *wire.Error) int {
	if err.Status == 0 {
		return http.StatusBadRequest
	}
	return err.Status
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// If Write fails, the client has hung up.
	_, _ = w.Write(body)
}
