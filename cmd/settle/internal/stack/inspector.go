package stack

import (
	"context"
	"net/http"

	"github.com/settle-run/settle/cmd/settle/internal/inspector"
	"github.com/settle-run/settle/runtime/durable"
)

// InspectorPath is the path of the inspector on the gateway's port.
const InspectorPath = "/inspect"

// withInspector returns a handler that serves the inspector at InspectorPath, and everything else with `next`.
func (s *Stack) withInspector(next http.Handler) (http.Handler, error) {
	if !s.config.Inspect {
		return next, nil
	}
	inspected, err := inspector.New(inspector.Config{Machines: s.machines, Store: s.store, Origins: s.config.InspectOrigins, Logger: s.config.Logger})
	if err != nil {
		return nil, err
	}
	report := s.config.Committed
	s.config.Committed = func(ctx context.Context, committed durable.Committed) {
		if report != nil {
			report(ctx, committed)
		}
		inspected.Committed(ctx, committed)
	}
	served := s.untilClosed(inspected)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == InspectorPath {
			served.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
