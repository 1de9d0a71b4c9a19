package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra"
)

// Roles has the guards of all functions of a stack.
type Roles struct{ guards map[string]*Guard }

// NewRoles returns the guards of the stack's functions.
func NewRoles(stack infra.Stack) (*Roles, error) {
	functions, err := infra.Functions()
	if err != nil {
		return nil, err
	}
	roles := &Roles{guards: map[string]*Guard{}}
	for name := range functions {
		if roles.guards[name], err = New(stack, name); err != nil {
			return nil, err
		}
	}
	return roles, nil
}

// Attach makes clients created from the configuration check each call with the function's guard. It panics if the
// template has no such function.
func (r *Roles) Attach(function string, config *aws.Config) {
	g, ok := r.guards[function]
	if !ok {
		panic(fmt.Sprintf("guard: expected one of the functions %v, got %q", slices.Sorted(maps.Keys(r.guards)), function))
	}
	g.Attach(config)
}

// Denied returns the denied calls of all functions, or nil if no call was denied.
func (r *Roles) Denied() error {
	var denied []error
	for _, name := range slices.Sorted(maps.Keys(r.guards)) {
		denied = append(denied, r.guards[name].Denied()...)
	}
	return errors.Join(denied...)
}

// Unused returns the sorted permissions that no call in any of the stacks has needed. Each one names its
// function and the resource as in the template: "gateway: sqs:SendMessage on ${Queue.Arn}". A permission for
// a stack's own workflows counts as used if a call for one of these workflows used it.
func Unused(stacks ...*Roles) []string {
	unused := map[string]bool{}
	for _, roles := range stacks {
		for name, g := range roles.guards {
			lacking := g.Unused()
			for _, statement := range g.function.Statements {
				for i, reference := range statement.References {
					for _, action := range statement.Actions {
						text := name + ": " + action + " on " + reference
						before, seen := unused[text]
						unused[text] = slices.Contains(lacking, infra.Permission{Action: action, Resource: statement.Resources[i]}) && (before || !seen)
					}
				}
			}
		}
	}
	maps.DeleteFunc(unused, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(unused))
}

// Handler restricts function processes to their roles. It wraps a server of the AWS API, such as awslocal's Cloud. It
// checks the calls of clients whose access key ID is a function's name, such as consumer, and denies calls as AWS
// would. All other calls pass.
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

// callerOf returns the caller's access key ID. A signed request has it in
// Credential=ID/date/region/service/aws4_request. For a request without a signature, callerOf returns "".
func callerOf(request *http.Request) string {
	_, credential, _ := strings.Cut(request.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}
