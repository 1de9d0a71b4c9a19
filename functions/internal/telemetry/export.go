package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/settle-run/settle/functions/internal/otlp"
)

const (
	// exportMax is how long spans may take to reach the collector: the answer of the invocation waits for them.
	exportMax = 2 * time.Second
	// exportMargin is what is kept of the invocation's time for its answer.
	exportMargin = 250 * time.Millisecond
	// exportSlow is from how long on a failure counts as that of a collector that does not answer.
	exportSlow = 200 * time.Millisecond
	// exportPause is for how long such a collector is left alone: each invocation would wait for it.
	exportPause = 30 * time.Second
)

// collector is what is known of the collector.
type collector struct {
	mu    sync.Mutex
	until time.Time // nothing is sent to it before
	lost  int       // spans that were not sent to it meanwhile
}

// isPaused notes spans as lost if the collector is left alone now. Otherwise it returns how many were lost since it was last asked.
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

// export sends the spans to the collector. Those that it does not take are lost.
func (t *Telemetry) export(ctx context.Context, spans []otlp.Span) {
	if len(spans) == 0 {
		return
	}
	paused, before := t.isPaused(t.config.Now(), len(spans))
	if paused {
		return
	}
	if before > 0 {
		t.config.Logger.WarnContext(ctx, "spans were lost, the collector did not answer", "lost", before)
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
	if t.config.Now().Sub(began) >= exportSlow { // One that refuses at once costs nothing.
		t.pause(t.config.Now().Add(exportPause))
		t.config.Logger.WarnContext(ctx, "spans are lost, and the collector is not asked for a while", "error", err, "wait", exportPause)
		return
	}
	t.config.Logger.WarnContext(ctx, "spans are lost", "error", err)
}
