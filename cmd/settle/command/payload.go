package command

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/payload"
)

// noteIgnoredKeys warns about keys that no hosted version of the machine decodes into the event's payload, because they
// may be misspelled. If a version accepts any key, there is no warning.
func (s *session) noteIgnoredKeys(machineID, event string, body json.RawMessage) {
	var keys []string
	var types []reflect.Type // excluding versions in which the event has no payload
	declared := false
	for _, machine := range s.config.Machines(Environment{Logger: slog.New(slog.DiscardHandler)}) {
		if machine.ID() != machineID || !slices.Contains(machine.Events(), event) {
			continue
		}
		declared = true
		typ := machine.Describe().Payloads[event]
		if typ == nil {
			continue
		}
		own, known := payload.Keys(typ)
		if !known {
			return
		}
		keys, types = append(keys, own...), append(types, typ)
	}
	var sent map[string]json.RawMessage
	if !declared || json.Unmarshal(body, &sent) != nil {
		return
	}
	var ignored []string
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		has := func(typ reflect.Type) bool { return payload.Has(typ, key) }
		if !payload.Reserved(key) && !slices.ContainsFunc(types, has) {
			ignored = append(ignored, fmt.Sprintf("%q", key))
		}
	}
	if len(ignored) == 0 {
		return
	}
	slices.Sort(keys)
	takes := "no keys"
	if len(keys) > 0 {
		takes = "the keys " + strings.Join(slices.Compact(keys), ", ")
	}
	s.note("%s: warning: unknown payload keys are ignored: %s; %s takes %s", s.name(), strings.Join(ignored, ", "), event, takes)
}
