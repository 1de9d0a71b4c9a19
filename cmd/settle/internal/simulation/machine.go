package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// Simulated machines have a context of raw JSON.
type (
	data  = json.RawMessage
	state = statechart.State[data]
)

// ErrName is returned by New if Config names a guard or a delay that the machine does not have. New also returns it if
// Config lacks a delay that the machine needs.
var ErrName = errors.New("wrong guards or delays")

// names are the names of guards and delays in a machine.
type names struct{ guards, delays, missing []string }

// compile reads a config twice. The first pass finds the names of its guards and delays.
func compile(machine []byte, config Config) (*statechart.Chart[data], error) {
	var found names
	def, err := xstatejson.Read(machine, xstatejson.Implementations[data]{Otherwise: standIns(Config{}, &found)})
	if err != nil {
		return nil, err
	}
	found.missing = slices.Clone(found.delays)
	constants(def.After, def.States, &found)
	if err := found.check(config); err != nil {
		return nil, err
	}
	impl := xstatejson.Implementations[data]{Otherwise: standIns(config, &names{}), Delays: map[string]func(data, statechart.Event) time.Duration{}}
	for name, delay := range config.Delays {
		impl.Delays[name] = func(data, statechart.Event) time.Duration { return time.Duration(delay) }
	}
	if def, err = xstatejson.Read(machine, impl); err != nil {
		return nil, err
	}
	if config.Input != nil {
		def.Input = statechart.PayloadOf[data]()
	}
	return xstatejson.Foreign(def)
}

// standIns returns stand-ins for the implementations that a config refers to, and adds the names to `found`.
func standIns(config Config, found *names) xstatejson.Otherwise[data] {
	return xstatejson.Otherwise[data]{
		Action: func(name string, _ json.RawMessage) (statechart.Action[data], error) {
			return statechart.Update(name, func(*data) {}), nil
		},
		Guard: func(name string, _ json.RawMessage) (statechart.Guard[data], error) {
			found.guards = append(found.guards, name)
			says, given := config.Guards[name]
			return statechart.If(name, func(data) bool { return says || !given }), nil
		},
		Service: func(name string, _ json.RawMessage) (statechart.Service[data], error) {
			return statechart.ServiceFunc(name, func(context.Context, data, statechart.Call) (json.RawMessage, error) {
				return nil, errors.New("a simulation calls no service")
			}), nil
		},
		Delay: func(name string) (func(data, statechart.Event) time.Duration, error) {
			found.delays = append(found.delays, name)
			return func(data, statechart.Event) time.Duration { return 0 }, nil
		},
	}
}

// constants adds to `found` the named delays whose length is in the config itself.
func constants(after []statechart.After[data], states []state, found *names) {
	for i := range after {
		if after[i].ID != "" {
			found.delays = append(found.delays, after[i].ID)
		}
	}
	for i := range states {
		constants(states[i].After, states[i].States, found)
	}
}

// check compares the names in a machine with the names in Config.
func (n *names) check(config Config) error {
	for _, given := range []struct {
		what  string
		names []string
		has   []string
	}{{"guard", slices.Sorted(maps.Keys(config.Guards)), n.guards}, {"delay", slices.Sorted(maps.Keys(config.Delays)), n.delays}} {
		for _, name := range given.names {
			if !slices.Contains(given.has, name) {
				return fmt.Errorf("%w: expected a %s that the machine names (%s), got %q", ErrName, given.what, list(given.has), name)
			}
		}
	}
	missing := slices.DeleteFunc(n.missing, func(name string) bool { _, given := config.Delays[name]; return given })
	if len(missing) > 0 {
		return fmt.Errorf("%w: expected a value for each delay that the machine names, as in --delay %s=5m, got none for %s", ErrName, missing[0], list(missing))
	}
	return nil
}

// list joins the names, without duplicates.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(names))
	return strings.Join(slices.Compact(sorted), ", ")
}
