package main

import (
	"encoding/json"
	"log/slog"

	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// charts reads the snapshots of each machine into the event types that they take next: a
// question that durable.Machine does not answer.
func charts() map[string]func(snapshot json.RawMessage) ([]string, error) {
	silent := slog.New(slog.DiscardHandler)
	return map[string]func(json.RawMessage) ([]string, error){
		"job":    nextEventsOf(job.New(demo.Runners{Logger: silent}, job.Config{})),
		"signup": nextEventsOf(signup.New(demo.Mailer{Logger: silent}, demo.Accounts{Logger: silent}, signup.Config{})),
	}
}

func nextEventsOf[C any](chart *statechart.Chart[C]) func(json.RawMessage) ([]string, error) {
	return func(snapshot json.RawMessage) ([]string, error) {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(snapshot, &keys); err != nil {
			return nil, err
		}
		// A timer without an ID of its own is named after its delay, which is a setting of
		// whoever stored it. What comes next does not depend on timers.
		delete(keys, "timers")
		timeless, err := json.Marshal(keys)
		if err != nil {
			return nil, err
		}
		restored, err := chart.Restore(timeless)
		if err != nil {
			return nil, err
		}
		return restored.NextEvents(), nil
	}
}

// nextEvents returns the types of the events that some active state of the record has a
// transition for. A snapshot that the chart cannot read gives none.
func nextEvents(record durable.Record) []string {
	next, ok := charts()[record.Instance.Machine]
	if !ok {
		return nil
	}
	types, err := next(record.Snapshot)
	if err != nil {
		return nil
	}
	return types
}
