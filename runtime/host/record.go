package host

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/recording"
)

// The environment variables of the recorder, which logs the commits of a sample of the instances for `settle record`.
const (
	// Record is the share of the instances that the consumer records, above 0 and at most 1, such as 0.01. Without it,
	// the consumer records nothing.
	Record = "SETTLE_RECORD"
	// RecordRedact lists keys whose values the consumer replaces before it records them, separated by commas, such as
	// email,card.number. See recording.Config.Redact.
	RecordRedact = "SETTLE_RECORD_REDACT"
	// RecordKey is the secret key of the replacements, at least RecordKeyBytesMin long. Required with RecordRedact.
	RecordKey = "SETTLE_RECORD_KEY"
)

// RecordKeyBytesMin is the minimum length of RecordKey.
const RecordKeyBytesMin = 16

// recording reads the variables of the recorder.
func (r *Env) recording() recording.Config {
	config := recording.Config{Share: r.share(Record), Key: r.Secret(RecordKey, RecordKeyBytesMin)}
	if rules := r.Text(RecordRedact, "keys"); rules != "" {
		for rule := range strings.SplitSeq(rules, ",") {
			rule = strings.TrimSpace(rule)
			if rule == "" || strings.HasPrefix(rule, ".") || strings.HasSuffix(rule, ".") || strings.Contains(rule, "..") {
				r.Wrong(RecordRedact, "keys separated by commas, such as email,card.number", strconv.Quote(rules))
			}
			config.Redact = append(config.Redact, rule)
		}
	}
	if len(config.Redact) > 0 && config.Key == nil {
		r.Wrong(RecordKey, fmt.Sprintf("a secret of at least %d bytes with %s", RecordKeyBytesMin, RecordRedact), "nothing: set it")
	}
	return config
}

// share reads a share above 0 and at most 1. No value means 0.
func (r *Env) share(name string) float64 {
	const expected = "a number above 0 and at most 1, such as 0.01"
	value := r.checked(name, expected, func(value string) bool {
		share, err := strconv.ParseFloat(value, 64)
		return err == nil && !math.IsNaN(share) && share > 0 && share <= 1
	})
	share, _ := strconv.ParseFloat(value, 64) // `checked` has reported an invalid value.
	return share
}

// observer returns the observer of the loop: the telemetry, and the recorder if it is on.
func (p *Process) observer() (durable.Observer, error) {
	observer := p.Telemetry.Observer()
	if p.Settings.Recording.Share == 0 {
		return observer, nil
	}
	// The level of the log must not drop the lines, because they are data.
	recorder, err := recording.New(slog.New(slog.NewJSONHandler(p.logs, nil)), p.Settings.Recording)
	if err != nil {
		return observer, err
	}
	count := observer.Committed
	observer.Committed = func(ctx context.Context, committed durable.Committed) {
		if count != nil {
			count(ctx, committed)
		}
		recorder.Committed(ctx, committed)
	}
	return observer, nil
}
