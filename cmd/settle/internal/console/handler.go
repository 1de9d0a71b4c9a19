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

	"github.com/lmittmann/tint"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// A column grows with its content up to columnMax. Wider content shifts the next column.
const (
	instanceColumn = 18
	eventColumn    = 13 // the width of "after pick_up"
	columnMax      = 40
)

// Handler prints a loop's work for people: transitions in columns and, as a slog.Handler, log records with their
// attributes. It prints each transition or record in one write, as a line folded at the style's width. It is safe for
// concurrent use.
type Handler struct {
	slog.Handler
	out   *output
	brief bool
	// `now` is the clock for the times of transitions, and `format` is the format of these times.
	now    func() time.Time
	format string
}

// output writes lines, indented and folded.
type output struct {
	mu sync.Mutex
	io.Writer
	style             Style
	indent            string
	instances, events int // current widths of the columns
}

// timeFormat is the format of the time at the beginning of each line. dateFormat is for a virtual clock, which can
// advance days between two lines.
const (
	timeFormat = "15:04:05.000 "
	dateFormat = "01-02 " + timeFormat
)

// NewHandler returns a handler that writes records of level Info and above to `out`. Each line starts with `indent`.
func NewHandler(out io.Writer, style Style, indent string) *Handler {
	return newHandler(out, style, indent, timeFormat)
}

// NewVirtualHandler is like NewHandler, but each line starts with the date and time of a virtual clock.
func NewVirtualHandler(out io.Writer, style Style, indent string, now func() time.Time) *Handler {
	h := newHandler(out, style, indent, dateFormat)
	h.Handler, h.now = clockHandler{h.Handler, now}, now
	return h
}

func newHandler(out io.Writer, style Style, indent, format string) *Handler {
	o := &output{Writer: out, style: style, indent: indent, instances: instanceColumn, events: eventColumn}
	return &Handler{out: o, now: time.Now, format: format, Handler: tint.NewTextHandler(o, &tint.Options{
		TimeFormat: format, NoColor: !style.on,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if level, ok := attr.Value.Any().(slog.Level); ok && level == slog.LevelInfo {
				return slog.Attr{} // The level Info is not printed.
			}
			return attr
		},
	})}
}

// clockHandler replaces the times of records with the time of a clock.
type clockHandler struct {
	slog.Handler
	now func() time.Time
}

// Handle implements slog.Handler.
func (h clockHandler) Handle(ctx context.Context, record slog.Record) error {
	record.Time = h.now().Local()
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h clockHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return clockHandler{h.Handler.WithAttrs(attrs), h.now}
}

// WithGroup implements slog.Handler.
func (h clockHandler) WithGroup(name string) slog.Handler {
	return clockHandler{h.Handler.WithGroup(name), h.now}
}

// Brief returns a handler that omits the revision of a transition and describes the change with BriefChange.
func (h *Handler) Brief() *Handler {
	derived := *h
	derived.brief = true
	return &derived
}

// Committed prints the transitions of a commit. Use it as durable.Observer.Committed.
func (h *Handler) Committed(_ context.Context, committed durable.Committed) {
	at := h.out.style.Dim(h.now().Local().Format(h.format)) + " "
	for _, t := range committed.Transitions {
		_, _ = h.out.Write([]byte(at + h.transition(committed, t) + "\n")) // As in a logger, a failure cannot be reported anywhere else.
	}
}

// Write writes a line.
func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := io.WriteString(o.Writer, o.style.Fold(o.indent+string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// columns returns the instance and the event of a transition, in columns.
func (o *output) columns(instance, event string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.style.Bold(Pad(Escape(instance), &o.instances)) + "  " + Pad(Escape(event), &o.events) + "  "
}

func (h *Handler) transition(c durable.Committed, t instances.Transition) string {
	style, line := h.out.style, h.out.columns(c.Instance, EventName(t.Event, t.From))
	if h.brief {
		return line + BriefChange(style, t.From, t.To, t.Ignored)
	}
	return line + Change(style, t.From, t.To, t.Ignored) + "  " + style.Dim(fmt.Sprintf("(revision %d)", c.Revision))
}

// EventName shortens done.invoke.ID and error.invoke.ID, the events at the end of a service, if the transition left the
// state with that ID. The output shows that state next to the event.
func EventName(event string, from []string) string {
	for _, prefix := range []string{"done.invoke", "error.invoke"} {
		if id, ok := strings.CutPrefix(event, prefix+"."); ok && slices.Contains(from, id) {
			return prefix
		}
	}
	return event
}

// Change describes the change of the active states in a few words.
func Change(style Style, from, to []string, ignored bool) string {
	states := style.State(Escape(strings.Join(to, ", ")))
	switch {
	case ignored:
		return style.Warning("ignored") + " in " + states
	case slices.Equal(from, to):
		return "stays in " + states
	case len(from) == 0:
		return "starts in " + states
	default:
		return fmt.Sprintf("%s → %s", Escape(strings.Join(from, ", ")), states)
	}
}

// BriefChange describes a change as Change does, but omits redundant parts: unchanged parallel states, and the common
// parent of siblings.
func BriefChange(style Style, from, to []string, ignored bool) string {
	if ignored || slices.Equal(from, to) {
		return Change(style, from, to, ignored)
	}
	left, entered := without(from, to), without(to, from)
	if len(left) == 0 || len(entered) == 0 {
		return Change(style, from, to, ignored)
	}
	if len(left) != len(entered) {
		return Change(style, left, entered, ignored)
	}
	var changes []string
	for i, path := range left {
		sibling, ok := strings.CutPrefix(entered[i], path[:strings.LastIndexByte(path, '.')+1])
		if !ok || strings.Contains(sibling, ".") {
			return Change(style, left, entered, ignored)
		}
		changes = append(changes, Escape(path)+" → "+style.State(Escape(sibling)))
	}
	return strings.Join(changes, ", ")
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
