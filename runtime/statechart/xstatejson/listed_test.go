package xstatejson_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// listed starts the machine of a config on both engines. XState then receives the events.
func listed(t *testing.T, config string, events ...any) (*statechart.Chart[counter], statechart.Snapshot[counter], answer) {
	t.Helper()
	theirs, err := startXState(t).run([]byte(config), events, nil)
	if err != nil {
		t.Fatal(err)
	}
	impl := implementations()
	impl.Otherwise.Service = func(name string, _ json.RawMessage) (statechart.Service[counter], error) {
		return statechart.ServiceFunc(name, func(context.Context, counter, statechart.Call) (json.RawMessage, error) {
			return nil, errors.New("not called")
		}), nil
	}
	chart, step := begun(t, config, impl)
	return chart, step.Next, theirs
}

// The tests below show differences from XState that lie outside SCXML's algorithm: see docs/charts/xstate-and-scxml.md.

func TestOnlyThisEngineRunsExitActionsOnStop(t *testing.T) {
	t.Parallel()
	chart, snapshot, theirs := listed(t, `{"id":"m","initial":"a","exit":{"type":"log","params":{"text":"-m"}},"states":{"a":{"exit":{"type":"log","params":{"text":"-a"}}}}}`,
		map[string]any{"stop": true})
	stopped, err := chart.Stop(snapshot, epoch)
	if got := text(stopped.Next.Context.Log); err != nil || got != `["-a","-m"]` {
		t.Errorf("this engine logs %s, %v", got, err)
	}
	if last := theirs.Steps[len(theirs.Steps)-1]; last.Status != "stopped" || len(last.Log) > 0 {
		t.Errorf("XState: %+v", last)
	}
}

func TestOnlyThisEngineCancelsAllEventsWithAnID(t *testing.T) {
	t.Parallel()
	const later = `{"type":"xstate.raise","event":{"type":"LATER"},"id":"x","delay":`
	_, snapshot, theirs := listed(t, `{"id":"m","initial":"a","entry":[`+later+`10},`+later+`20},{"type":"xstate.cancel","sendId":"x"}],
		"on":{"LATER":{"actions":{"type":"log","params":{"text":"late"}}}},"states":{"a":{}}}`, map[string]any{"advance": 30})
	_, waits := firstDue(snapshot.Timers, epoch.Add(time.Hour))
	if last := theirs.Steps[len(theirs.Steps)-1]; waits || text(last.Log) != `["late"]` {
		t.Errorf("this engine has %d timers, XState logs %v", len(snapshot.Timers), last.Log)
	}
}

func TestOnlyXStateEndsWithAnUnhandledError(t *testing.T) {
	t.Parallel()
	chart, snapshot, theirs := listed(t, `{"id":"m","initial":"a","states":{"a":{"invoke":{"id":"s","src":"fails"}}}}`)
	step, err := chart.Step(snapshot, snapshot.Services[0].Failed(errors.New("planned")))
	if err != nil || step.Next.Status != statechart.Active || len(step.Next.Services) > 0 {
		t.Errorf("this engine: %v, %v with %d services", err, step.Next.Status, len(step.Next.Services))
	}
	if !strings.Contains(theirs.Error, "planned") {
		t.Errorf("XState: %+v", theirs)
	}
}
