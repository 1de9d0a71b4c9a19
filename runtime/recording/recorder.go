package recording

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// LineBytesMax is the longest commit that a Recorder logs. CloudWatch Logs accepts events of 256 KiB in all Regions.
const LineBytesMax = 250 << 10

// Config configures a Recorder.
type Config struct {
	// Share is the share of the instances that are recorded, above 0 and at most 1. The choice depends on the name of the
	// instance, so all processes record the same instances.
	Share float64
	// Redact lists the keys whose values are replaced, at any depth. "card.number" is the key number below card.
	Redact []string
	// Key is the secret key of the hashes that replace the values. Required with Redact.
	Key []byte
}

// Recorder logs the commits of a sample of the instances.
type Recorder struct {
	logger   *slog.Logger
	share    float64
	redactor redactor
}

// The message of a log line with a commit, and the key of the commit in the line.
const (
	lineMessage = "commit recorded"
	lineKey     = "recorded"
)

// New returns a recorder that writes JSON lines to the logger.
func New(logger *slog.Logger, config Config) (*Recorder, error) {
	if !(config.Share > 0 && config.Share <= 1) {
		return nil, fmt.Errorf("expected a share of the instances above 0 and at most 1, got %v", config.Share)
	}
	if len(config.Redact) > 0 && len(config.Key) == 0 {
		return nil, fmt.Errorf("expected a secret key for the redaction of %s, got none", strings.Join(config.Redact, ", "))
	}
	r := &Recorder{logger: logger, share: config.Share, redactor: redactor{key: config.Key}}
	for _, rule := range config.Redact {
		r.redactor.rules = append(r.redactor.rules, strings.Split(rule, "."))
	}
	return r, nil
}

// Committed logs a commit if its instance is in the sample. Use it as durable.Observer.Committed. An instance whose
// data an operator has erased is not logged.
func (r *Recorder) Committed(ctx context.Context, committed durable.Committed) {
	if !r.samples(committed.Instance) || committed.Record.Forgotten {
		return
	}
	text, err := r.line(committed)
	if err != nil && len(r.redactor.rules) > 0 {
		err = fmt.Errorf("encoding the commit: an error of the type %T, whose text may contain a redacted value", err)
	}
	if err == nil && len(text) > LineBytesMax {
		err = fmt.Errorf("expected at most %d bytes (LineBytesMax), got %d", LineBytesMax, len(text))
	}
	if err != nil {
		r.logger.WarnContext(ctx, "commit not recorded", "instance", committed.Instance, "revision", committed.Revision, "error", err)
		return
	}
	r.logger.InfoContext(ctx, lineMessage, lineKey, text)
}

// samples reports whether the instance is in the sample.
func (r *Recorder) samples(instance string) bool {
	hash := sha256.Sum256([]byte(instance))
	return float64(binary.BigEndian.Uint64(hash[:8]))/math.MaxUint64 < r.share || r.share == 1
}

// line returns the JSON form of the commit. A payload may have methods that panic.
func (r *Recorder) line(committed durable.Committed) (text json.RawMessage, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = statechart.Panicked(recovered)
		}
	}()
	commit := Commit{Format: format, Instance: committed.Instance, CreatedAt: committed.Record.CreatedAt, Revision: committed.Revision, Events: []Event{}}
	if parent := committed.Record.Parent; parent != nil {
		commit.Parent = parent.Instance
	}
	for i, transition := range committed.Transitions {
		event := Event{
			Type: transition.Event, At: committed.Events[i].At.UTC(), Timer: committed.Events[i].Timer, Key: committed.Events[i].Invocation,
			To: transition.To, Ignored: transition.Ignored,
		}
		if event.At.IsZero() {
			event.At = transition.At
		}
		if event.ID, err = r.id(committed.Events[i].ID); err != nil {
			return nil, err
		}
		switch body := committed.Bodies[i]; {
		case event.Timer != "":
		case body != "":
			event.Body, err = r.redactor.body(body)
		default:
			event.Payload, err = r.payload(event.Type, committed.Events[i].Payload)
		}
		if err != nil {
			return nil, fmt.Errorf("encoding the event %s: %w", event.Type, err)
		}
		commit.Events = append(commit.Events, event)
	}
	if commit.Snapshot, err = r.redactor.snapshot(committed.Record.Snapshot); err != nil {
		return nil, fmt.Errorf("encoding the snapshot: %w", err)
	}
	return plainjson.Marshal(commit)
}

// id redacts the ID of an event. Rules refer to it as $id.
func (r *Recorder) id(id string) (string, error) {
	text, err := plainjson.Marshal(id)
	if err == nil {
		text, err = r.redactor.value(text, "$id")
	}
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err
}

// payload encodes the payload of an event without a message. Rules refer to an input as `input`, to the error of a
// service or child as `error`, and to a result as `output`.
func (r *Recorder) payload(typ string, payload any) (json.RawMessage, error) {
	if payload == nil {
		return nil, nil
	}
	text, err := plainjson.Marshal(payload)
	if err != nil {
		return nil, err
	}
	key := "output"
	switch {
	case typ == startStep:
		key = "input"
	case strings.HasPrefix(typ, "error."):
		key = "error"
	}
	return r.redactor.value(text, key)
}
