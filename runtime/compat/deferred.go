package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// checkDeferred returns an error if the loop would park a deferred event, because the machine cannot decode the event.
// Payloads of the chart's internal events are not checked.
func checkDeferred(machine durable.Machine, instance durable.Instance) error {
	if instance.Status() != statechart.Active || !instance.Defers() {
		return nil
	}
	snapshot, err := instance.Snapshot()
	if err != nil {
		return err
	}
	var stored struct {
		Deferred []struct {
			Event json.RawMessage `json:"event"`
		} `json:"deferred"`
	}
	if err := json.Unmarshal(snapshot, &stored); err != nil {
		return err
	}
	for _, deferred := range stored.Deferred {
		event, err := machine.Decode(deferred.Event)
		if outline := machine.Outline(); errors.Is(err, statechart.ErrUndeclared) && outline != nil && slices.Contains(outline.Internal, event.Type) {
			continue
		}
		if err != nil {
			return fmt.Errorf("this build would park a deferred event: %w; accept the stored payload too, or raise Version and add Rewrite to the migration", err)
		}
	}
	return nil
}
