package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// A column grows with its content up to columnMax. Wider content shifts the next column.
const (
	instanceColumn = 18
	eventColumn    = 13 // "after pick_up"
	columnMax      = 40
)

// Handler prints a loop's work for people: transitions in columns, and as a slog.Handler, records as message and
// attributes. Each is one line, folded at the style's width, and one write. It is safe for concurrent use.
type Handler struct {
	out    *output
	style  Style
	indent string
	brief  bool
	// attrs are the attributes of WithAttrs, with the names of their groups. prefix is the current group.
	attrs  []slog.Attr
	prefix string
}

// output is shared by a handler and the handlers derived from it.
type output struct {
	mu sync.Mutex
	io.Writer
	instances, events int // current widths of the columns
}

// NewHandler returns a handler that writes to out. Each line starts with indent.
func NewHandler(out io.Writer, style Style, indent string) *Handler {
	return &Handler{out: &output{Writer: out, instances: instanceColumn, events: eventColumn}, style: style, indent: indent}
}

// Brief returns a handler that prints transitions without the revision, and changes as BriefChange does.
func (h *Handler) Brief() *Handler {
	derived := *h
	derived.brief = true
	return &derived
}

// Enabled returns true for all levels from Info up.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.attrs = slices.Clip(h.attrs)
	for _, attr := range attrs {
		attr.Key = h.prefix + attr.Key
		derived.attrs = append(derived.attrs, attr)
	}
	return &derived
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	derived := *h
	if name != "" {
		derived.prefix += name + "."
	}
	return &derived
}

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, record slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	return h.print(record.Time, h.plain(record))
}

// Committed prints the transitions of a commit. It is for durable.Observer.
func (h *Handler) Committed(_ context.Context, committed durable.Committed) {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	for _, t := range committed.Transitions {
		_ = h.print(time.Now(), h.transition(committed, t)) // As for a logger, there is no other place to report a failure.
	}
}

// print writes a line. The caller holds h.out.mu.
func (h *Handler) print(at time.Time, line string) error {
	if !at.IsZero() {
		line = h.style.Dim(at.Format("15:04:05.000")) + "  " + line
	}
	_, err := io.WriteString(h.out, h.style.Fold(h.indent+line+"\n"))
	return err
}

func (h *Handler) transition(c durable.Committed, t durable.Transition) string {
	line := h.style.Bold(Pad(Escape(c.Instance), &h.out.instances)) + "  " + Pad(Escape(EventName(t.Event, t.From)), &h.out.events) + "  "
	if h.brief {
		return line + BriefChange(h.style, t.From, t.To, t.Ignored)
	}
	return line + Change(h.style, t.From, t.To, t.Ignored) + "  " + h.style.Dim(fmt.Sprintf("(revision %d)", c.Revision))
}

func (h *Handler) plain(record slog.Record) string {
	var b strings.Builder
	if record.Level >= slog.LevelWarn {
		b.WriteString(h.style.Warning(record.Level.String()) + "  ")
	}
	b.WriteString(record.Message)
	for _, attr := range h.attrs {
		writeAttr(&b, "", attr)
	}
	record.Attrs(func(attr slog.Attr) bool {
		writeAttr(&b, h.prefix, attr)
		return true
	})
	return b.String()
}

func writeAttr(b *strings.Builder, prefix string, attr slog.Attr) {
	value := attr.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		for _, member := range value.Group() {
			writeAttr(b, prefix+attr.Key+".", member)
		}
		return
	}
	text := value.String()
	if text == "" || strings.Contains(text, "\n") || Escape(text) != text {
		text = fmt.Sprintf("%q", text) // Quoted so that it cannot forge a log line or control the terminal.
	}
	fmt.Fprintf(b, "  %s=%s", prefix+attr.Key, text)
}
