package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/emf/emftest"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestErrorLinesAreFaults logs lines of all levels, with attributes and in groups, inside and outside an invocation.
func TestErrorLinesAreFaults(t *testing.T) {
	t.Parallel()
	var metrics, log strings.Builder
	config := quiet(&metrics, &log)
	logger := slog.New(FaultHandler(config.Logger.Handler()))
	config.Logger = logger
	logger.ErrorContext(t.Context(), "before it")
	handler := New(config).Handler(lambda.NewHandler(func(ctx context.Context) error {
		logger.DebugContext(ctx, "one")
		logger.InfoContext(ctx, "two")
		logger.WarnContext(ctx, "three")
		logger.ErrorContext(ctx, "four")
		logger.With("instance", "order/1").ErrorContext(ctx, "five")
		logger.WithGroup("loop").ErrorContext(ctx, "six", "instance", "order/1")
		return nil
	}))
	if _, err := handler.Invoke(t.Context(), []byte("{}")); err != nil {
		t.Error(err)
	}
	got, err := emftest.Check([]byte(metrics.String()))
	if diff := cmp.Diff(map[string]float64{"Faults": 3, "AWSCalls": 0}, got); diff != "" || err != nil {
		t.Errorf("metrics (-want +got):\n%s%v", diff, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 6 || !strings.Contains(log.String(), `"msg":"six","loop":{"instance":"order/1"}`) {
		t.Errorf("got %d log lines, want 6, as without counting:\n%s", lines, log.String())
	}
}

func TestEffectsAreLoggedAtLevelDebug(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level][]map[string]any{
		slog.LevelInfo: nil,
		slog.LevelDebug: {
			{"level": "DEBUG", "msg": "effect tried", "instance": "order/1", "effect": "2.0", "kind": "send", "failed": false},
			{"level": "DEBUG", "msg": "effect tried", "instance": "order/1", "effect": "2.1", "kind": "schedule", "failed": true},
		},
	} {
		var log strings.Builder
		config := quiet(io.Discard, io.Discard)
		config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level}))
		performed := New(config).Observer().Performed
		performed(t.Context(), durable.Performed{Instance: "order/1", ID: "2.0", Kind: statechart.Send})
		performed(t.Context(), durable.Performed{Instance: "order/1", ID: "2.1", Kind: statechart.Schedule, Err: io.EOF})
		var got []map[string]any
		for text := range strings.Lines(log.String()) {
			var line map[string]any
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
			delete(line, "time")
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", level, diff)
		}
	}
}

func TestLongTypeIsCutInTheLog(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"PAY": "PAY", strings.Repeat("é", 128): strings.Repeat("é", 128), strings.Repeat("é", 1<<19): strings.Repeat("é", 126) + "…",
		strings.Repeat("e", statechart.EventNameBytesMax): strings.Repeat("e", statechart.EventNameBytesMax), strings.Repeat("e", statechart.EventNameBytesMax+1): strings.Repeat("e", statechart.EventNameBytesMax-len("…")) + "…",
	} {
		body, err := json.Marshal(map[string]string{"type": typ})
		if err != nil {
			t.Fatal(err)
		}
		if got := typeOf(body); got != want || len(got) > statechart.EventNameBytesMax {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The turns of one invocation report the same backlog. The log must name the instance once, and only above the threshold of
// the alarm.
func TestABacklogIsLoggedOnceInAnInvocation(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]int{backlogLogged: 0, backlogLogged + time.Second: 1} {
		var log strings.Builder
		tele := New(quiet(io.Discard, &log))
		handler := tele.Handler(lambda.NewHandler(func(ctx context.Context) {
			for range 3 {
				tele.Observer().Loaded(ctx, durable.Loaded{Instance: "order/1", Backlog: age})
			}
		}))
		if _, err := handler.Invoke(t.Context(), []byte("{}")); err != nil {
			t.Error(err)
		}
		const line = `"level":"WARN","msg":"instance is behind, its events wait","instance":"order/1","backlog_age_seconds":61}`
		if strings.Count(log.String(), "\n") != want || strings.Count(log.String(), line) != want {
			t.Errorf("a backlog of %v: expected %d lines with %s, got %s", age, want, line, log.String())
		}
	}
}

func TestTheLogNamesTheInstanceOfEachBacklogAlarm(t *testing.T) {
	t.Parallel()
	for _, r := range rules(t) {
		if r.metric == extremeNames[backlogAge] && r.threshold != backlogLogged.Seconds() {
			t.Errorf("expected the alarm %s to have the threshold of the log, %v, got %v s", r.name, backlogLogged, r.threshold)
		}
	}
}
