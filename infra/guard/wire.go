package guard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// Handler restricts function processes to their roles. It wraps an AWS such as awslocal's Cloud. It checks the calls of
// clients whose access key ID is a function's name, such as consumer, and denies calls as AWS would. All other calls
// pass.
func (r *Roles) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		g, ok := r.guards[callerOf(request)]
		if !ok {
			next.ServeHTTP(w, request)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := g.decide(operationIn(request, body)); err != nil {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.Header().Set("X-Amzn-ErrorType", accessDenied)
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": accessDenied, "message": err.Error()}) // The client may have disconnected.
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, request)
	})
}

// callerOf returns the caller's access key ID, "" if the request is not signed:
// Credential=ID/date/region/service/aws4_request.
func callerOf(request *http.Request) string {
	_, credential, _ := strings.Cut(request.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}
