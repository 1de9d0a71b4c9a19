package demo_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
)

func TestEnricherLogsTheCallbackAndReturnsTheSameForOneKey(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	enricher := demo.Enricher{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	submit := func(key string) string {
		id, err := enricher.Submit(t.Context(), enrich.Job{IdempotencyKey: key, CallbackURL: "https://api.example.com/webhooks/1"})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := submit("key-1")
	if again, other := submit("key-1"), submit("key-2"); again != first || other == first {
		t.Errorf("want the same ID for the same key only, got %s, %s and %s", first, again, other)
	}
	if !strings.Contains(log.String(), first) || !strings.Contains(log.String(), "https://api.example.com/webhooks/1") {
		t.Errorf("want the job and the address of its callback in the log, got\n%s", &log)
	}
}
