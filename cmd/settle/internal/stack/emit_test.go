package stack

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestAnEmittedEventIsLogged enforces the roles, so it also checks that the consumer may publish events.
func TestAnEmittedEventIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rings := func(string) []durable.Machine {
			return []durable.Machine{durable.Host(statechart.Must(statechart.Definition[struct{}]{
				ID: "bell", Version: 1, Initial: "idle", Payloads: statechart.Payloads{"RING": statechart.NoPayload()},
				States: []statechart.State[struct{}]{{ID: "idle", Tags: []string{"settled"}, On: []statechart.Transition[struct{}]{{
					Event: "RING", Actions: []statechart.Action[struct{}]{statechart.Emit("bell.rang", func(struct{}, statechart.Event) any { return map[string]int{"times": 1} })},
				}}}},
			}), durable.MachineConfig{})}
		}
		var logs bytes.Buffer
		config := byRoles(t, Config{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		s, err := Start(t.Context(), rings, config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.HTTPClient().Post(s.HTTPURL()+"/instances/bell/1/events", "application/json", strings.NewReader(`{"type": "RING"}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		synctest.Wait()
		stop(t, s)
		if line := logs.String(); !strings.Contains(line, `msg="event published" source=settle.bell event=bell.rang detail="{\"id\":\"bell/1@`) || !strings.Contains(line, `\"payload\":{\"times\":1}}"`) {
			t.Errorf("expected a line with the event, got %s", line)
		}
	})
}
