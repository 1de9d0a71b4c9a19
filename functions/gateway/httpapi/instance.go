package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// instanceView is what the API shows of an instance: named keys only, so that what a record
// learns to hold later, task tokens above all, stays inside.
type instanceView struct {
	Instance string `json:"instance"`
	snapshotView
	// State is the paths of the active atomic states.
	State []string `json:"state"`

	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpireAt  time.Time `json:"expire_at,omitzero"`
	// History is the last transitions, oldest first.
	History []durable.Transition `json:"history"`
	// Ignored counts the events that no active state had a transition for.
	Ignored int64 `json:"ignored"`
	// Parked is the last event that could not be applied.
	Parked *parkedView `json:"parked,omitempty"`
}

// snapshotView is the keys of a snapshot that are shown, in the form that it has.
type snapshotView struct {
	Machine      string          `json:"machine"`
	Version      int             `json:"version"`
	Status       string          `json:"status"`
	Value        json.RawMessage `json:"value"`
	Tags         []string        `json:"tags"`
	Context      json.RawMessage `json:"context"`
	Output       json.RawMessage `json:"output,omitempty"`
	HistoryValue json.RawMessage `json:"historyValue,omitempty"`
	Timers       json.RawMessage `json:"timers,omitempty"`
	Services     json.RawMessage `json:"services,omitempty"`
}

// parkedView names an event that was parked. Why it was is for operators, in the dead-letter
// queue: the reason may quote the event.
type parkedView struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
}

func (a *api) getInstance(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	record, err := a.loader.Load(r.Context(), id)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errStore, err)
	}
	if record.Revision == 0 {
		return reply{}, fmt.Errorf("%w: nothing is stored of %s; its first event creates it", errUnknownInstance, id)
	}
	etag := entityTag(record)
	if isMatch(r.Header.Values("If-None-Match"), etag) {
		return reply{status: http.StatusNotModified, etag: etag}, nil
	}
	view, err := viewOf(record)
	if err != nil {
		return reply{}, fmt.Errorf("showing %s at revision %d: %w", id, record.Revision, err)
	}
	return reply{status: http.StatusOK, etag: etag, body: view}, nil
}

// entityTag returns the ETag of a record. The revision alone would repeat itself when an
// instance expires and another takes its name.
func entityTag(record durable.Record) string {
	return fmt.Sprintf(`"%d-%d"`, record.Revision, record.CreatedAt.UnixMilli())
}

// isMatch reports whether the If-None-Match lines name the ETag (RFC 9110 13.1.2: weakly
// compared, or any by "*").
func isMatch(lines []string, etag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}

func viewOf(record durable.Record) (instanceView, error) {
	view := instanceView{
		Instance: record.Instance.String(), State: record.State,
		Revision: record.Revision, CreatedAt: record.CreatedAt, UpdatedAt: record.UpdatedAt, ExpireAt: record.ExpireAt,
		History: append([]durable.Transition{}, record.History...), Ignored: record.Ignored,
	}
	if record.Error != nil {
		view.Parked = &parkedView{At: record.Error.At, Event: record.Error.Event}
	}
	if err := json.Unmarshal(record.Snapshot, &view.snapshotView); err != nil {
		return instanceView{}, fmt.Errorf("reading the stored snapshot: %w", err)
	}
	if view.Tags == nil {
		view.Tags = []string{}
	}
	return view, nil
}
