package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
)

func (a *api) getInstance(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	return a.show(r, id)
}

// getAlias shows the instance that has an alias.
func (a *api) getAlias(r *http.Request) (reply, error) {
	id, err := a.find(r.Context(), r.PathValue("alias"))
	if err != nil {
		return reply{}, err
	}
	return a.show(r, id)
}

// find returns the instance that has an alias.
func (a *api) find(ctx context.Context, alias string) (instances.ID, error) {
	id, err := a.store.Find(ctx, alias)
	switch {
	case errors.Is(err, dynamostore.ErrNoAlias):
		return id, fmt.Errorf("%w: no instance has the alias %q", errUnknownAlias, alias)
	case err != nil:
		return id, fmt.Errorf("%w: %w", errStore, err)
	default:
		return id, nil
	}
}

func (a *api) show(r *http.Request, id instances.ID) (reply, error) {
	record, err := a.store.Load(r.Context(), id)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errStore, err)
	}
	if record.Revision == 0 {
		return reply{}, fmt.Errorf("%w: %s has no record yet; its first event creates it", errUnknownInstance, id)
	}
	view, err := instanceview.Of(a.machines, record)
	if err != nil {
		return reply{}, err
	}
	body, err := json.Marshal(view)
	if err != nil {
		return reply{}, err
	}
	return unlessMatch(r, entityTag(record.Revision, body), body), nil
}

// unlessMatch returns the reply with a body, or 304 if the client has it already.
func unlessMatch(r *http.Request, etag string, body json.RawMessage) reply {
	if isMatch(r.Header.Values("If-None-Match"), etag) {
		return reply{status: http.StatusNotModified, etag: etag}
	}
	return reply{status: http.StatusOK, etag: etag, body: body}
}

// entityTag returns the ETag of an answer. The revision in it is for human readers. A revision is not unique: an
// instance may expire and be created again, and the deployment of a new chart may change the instance's next events.
func entityTag(revision int64, body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf(`"%d-%x"`, revision, sum[:8])
}

// isMatch reports whether If-None-Match lists the ETag, by weak comparison, or is "*" (RFC 9110, 13.1.2).
func isMatch(lines []string, etag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}
