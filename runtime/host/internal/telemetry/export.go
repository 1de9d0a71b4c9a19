package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/host/internal/otlp"
)

const (
	// exportMax limits the time to send spans to the collector. The response of the invocation waits for it.
	exportMax = 2 * time.Second
	// exportMargin is reserved for the response of the invocation.
	exportMargin = 250 * time.Millisecond
	// exportSlow is the time from which a failed export counts as an unresponsive collector.
	exportSlow = 200 * time.Millisecond
	// exportPause is the time without exports after the collector did not respond. Without a pause, every invocation
	// would wait.
	exportPause = 30 * time.Second
)

// collector is the state of the connection to the collector.
type collector struct {
	mu    sync.Mutex
	until time.Time // no exports before this time
	lost  int       // spans dropped during the pause
}

// isPaused reports whether exports are paused, and counts the spans as lost if so. Otherwise it returns and resets the
// number of lost spans.
func (c *collector) isPaused(now time.Time, spans int) (paused bool, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		c.lost += spans
		return true, 0
	}
	lost, c.lost = c.lost, 0
	return false, lost
}

func (c *collector) pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
}

// export sends the spans to the collector. Spans that the collector does not accept are lost.
func (t *Telemetry) export(ctx context.Context, spans []otlp.Span) {
	if len(spans) == 0 {
		return
	}
	paused, before := t.isPaused(t.config.Now(), len(spans))
	if paused {
		return
	}
	if before > 0 {
		t.config.Logger.WarnContext(ctx, "spans lost: the collector did not respond", "lost", before)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-exportMargin))
		defer cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, exportMax)
	defer cancel()
	began := t.config.Now()
	err := t.exporter.Export(ctx, spans)
	if err == nil {
		return
	}
	if t.config.Now().Sub(began) >= exportSlow { // A collector that rejects immediately costs no time.
		t.pause(t.config.Now().Add(exportPause))
		t.config.Logger.WarnContext(ctx, "spans lost: the collector did not respond, exports are paused", "error", err, "wait", exportPause)
		return
	}
	t.config.Logger.WarnContext(ctx, "spans lost", "error", err)
}
