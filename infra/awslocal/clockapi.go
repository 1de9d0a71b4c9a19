package awslocal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ClockPath is the path of the clock on a server of Listen. GET and HEAD return a ClockState. POST with an
// AdvanceRequest calls Cloud.Advance, and then returns a ClockState. An error response holds the error's text. Its
// status is 400 for an invalid duration, and 409 if the clock is real or is being advanced.
const ClockPath = "/_awslocal/clock"

// AdvanceRequest is the body of a POST to ClockPath.
type AdvanceRequest struct {
	// Advance is how far to move the clock, in the format of time.ParseDuration.
	Advance string `json:"advance"`
}

// ClockState is the JSON form of a clock.
type ClockState struct {
	Now time.Time `json:"now"`
	// Clock is "virtual" with Config.Clock, and "real" without.
	Clock string `json:"clock"`
	// AheadSeconds is how far a virtual clock is ahead of the real clock, rounded to seconds.
	AheadSeconds int64 `json:"ahead_seconds"`
	// From and Steps describe an advance, as in Advanced. A GET omits them.
	From  *time.Time `json:"from,omitempty"`
	Steps *int       `json:"steps,omitempty"`
}

// serveClock serves a request to ClockPath.
func (c *Cloud) serveClock(w http.ResponseWriter, r *http.Request) {
	state := ClockState{Clock: "real"}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		done, status, err := c.serveAdvance(w, r)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		from := done.From.UTC()
		state.From, state.Steps = &from, &done.Steps
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "expected GET, HEAD or POST, got "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	state.Now = c.now().UTC()
	if c.clock != nil {
		state.Clock, state.AheadSeconds = "virtual", int64(c.clock.Ahead().Round(time.Second)/time.Second)
	}
	body, err := json.Marshal(state)
	if err != nil {
		panic("awslocal: cannot encode the clock as JSON: " + err.Error())
	}
	write(w, http.StatusOK, "application/json", body)
}

// advanceBytesMax is the maximum size of an AdvanceRequest.
const advanceBytesMax = 1 << 10

// serveAdvance moves the clock as the request asks. The result `status` is the HTTP status for the error.
func (c *Cloud) serveAdvance(w http.ResponseWriter, r *http.Request) (done Advanced, status int, err error) {
	var request AdvanceRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, advanceBytesMax))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		return Advanced{}, http.StatusBadRequest, fmt.Errorf(`expected a JSON object such as {"advance": "72h"}: %w`, err)
	}
	d, err := time.ParseDuration(request.Advance)
	if err != nil {
		return Advanced{}, http.StatusBadRequest, fmt.Errorf("advance: expected a duration such as 72h or 90m: %w", err)
	}
	done, err = c.Advance(r.Context(), d)
	switch {
	case errors.Is(err, ErrAdvance):
		status = http.StatusBadRequest
	case errors.Is(err, ErrRealClock), errors.Is(err, ErrAdvancing):
		status = http.StatusConflict
	default:
		status = http.StatusServiceUnavailable
	}
	return done, status, err
}
