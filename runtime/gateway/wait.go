package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/producer"
)

const (
	// WaitMax is the longest wait for the outcome of an event. An HTTP API ends a request after 30 seconds (Amazon API
	// Gateway Developer Guide, "Quotas for configuring and running an HTTP API").
	WaitMax = 29 * time.Second
	// WaitDefault is the longest wait of a request that sets no timeout.
	WaitDefault = 10 * time.Second
)

// waitOf returns the time that a request wants to wait according to its query, such as ?wait=settled&timeout=10s.
// Without those keys, it returns 0. It refuses other keys, because they may be misspelled, but accepts the keys of a
// signature ("AWS Signature Version 4 for API requests", in the IAM User Guide).
func waitOf(query string) (time.Duration, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, fmt.Errorf("%w: expected wait=settled and timeout=10s", errQuery)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != "wait" && key != "timeout" && !strings.HasPrefix(key, "X-Amz-") {
			return 0, fmt.Errorf("%w: expected the keys wait and timeout, got %.100q", errQuery, key)
		}
	}
	until, timeout := values["wait"], values["timeout"]
	switch {
	case len(until) == 0 && len(timeout) == 0:
		return 0, nil
	case len(until) == 0:
		return 0, fmt.Errorf("%w: expected wait=settled with timeout, got timeout alone", errQuery)
	case len(until) > 1 || until[0] != string(producer.Settled):
		return 0, fmt.Errorf("%w: wait: expected settled, got %q", errQuery, strings.Join(until, ","))
	case len(timeout) == 0:
		return WaitDefault, nil
	}
	wait, err := time.ParseDuration(timeout[0])
	if len(timeout) > 1 || err != nil || wait <= 0 || wait > WaitMax {
		return 0, fmt.Errorf("%w: timeout: expected a duration of more than 0 and at most %v, such as 10s or 500ms, got %q", errQuery, WaitMax, strings.Join(timeout, ","))
	}
	return wait, nil
}

// sendAndWait queues an event and waits until its instance has applied it and is settled. If the time runs out, or the
// instance becomes unreadable, it answers 202, as it would without a wait: a client must not send the event again.
func (a *api) sendAndWait(ctx context.Context, event producer.Event, wait time.Duration) (reply, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	watched, err := a.producer.Watch(ctx, event)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errWatch, err)
	}
	if err := a.reserve(ctx, event); err != nil {
		return reply{}, err
	}
	sent, err := a.producer.SendWatched(ctx, watched)
	queued, err := a.queued(ctx, sent, err)
	if err != nil {
		return reply{}, err
	}
	outcome, err := a.producer.Await(waiting, sent, producer.Settled, nil)
	switch {
	case errors.Is(err, producer.ErrParked):
		// The reason may quote the event, and only operators may read it.
		return reply{}, fmt.Errorf("%w: %s will not apply %s, message %s; operators find the reason in the dead-letter queue", errParked, sent.Message.To, sent.Type, sent.MessageID)
	case err != nil && waiting.Err() == nil:
		a.config.Logger.WarnContext(ctx, "cannot read the outcome of an event", "instance", sent.Message.To.String(), "message_id", sent.MessageID, "error", err)
		return queued, nil // The event is queued, so the client must not send it again.
	case err != nil:
		return queued, nil
	}
	return reply{status: http.StatusOK, body: appliedView{
		MessageID: sent.MessageID, Type: sent.Type, EventIgnored: outcome.Ignored, Instance: outcome.View,
	}}, nil
}
