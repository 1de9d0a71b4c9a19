package console

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

func logTo(out *bytes.Buffer, style Style) *slog.Logger {
	return slog.New(NewHandler(out, style, "> "))
}

// untimed returns the log without its times.
func untimed(out *bytes.Buffer) string {
	return regexp.MustCompile(`(?m)^> \d\d:\d\d:\d\d\.\d\d\d  `).ReplaceAllString(out.String(), "> ")
}

func TestTransitionsArePrintedInColumns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := NewHandler(&out, Style{}, "> ")
	handler.Committed(t.Context(), durable.Committed{Instance: "signup/42", Revision: 1, Transitions: []instances.Transition{
		{Event: "SIGN_UP", From: []string{"new"}, To: []string{"unverified.registering"}},
		{Event: "done.invoke.unverified.registering", From: []string{"unverified.registering"}, To: []string{"waiting"}},
	}})
	handler.Committed(t.Context(), durable.Committed{Instance: "signup/42", Revision: 2, Transitions: []instances.Transition{
		{Event: "done.invoke.other", From: []string{"waiting"}, To: []string{"waiting"}},
		{Event: "CANCEL", From: []string{"a.b", "c.d"}, To: []string{"a.b", "c.d"}, Ignored: true},
	}})
	handler.Committed(t.Context(), durable.Committed{Instance: "signup/42", Revision: 1, Transitions: []instances.Transition{
		{Event: "settle.start", To: []string{"a.b", "c.d"}},
	}})
	want := `> signup/42           SIGN_UP        new → unverified.registering  (revision 1)
> signup/42           done.invoke    unverified.registering → waiting  (revision 1)
> signup/42           done.invoke.other  stays in waiting  (revision 2)
> signup/42           CANCEL             ignored in a.b, c.d  (revision 2)
> signup/42           settle.start       starts in a.b, c.d  (revision 1)
`
	if got := untimed(&out); got != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, got)
	}
}

func TestOtherRecordsAreOnePlainLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logTo(&out, Style{})
	log.Debug("not for people")
	log.With("instance", "job/1").WithGroup("g").Warn("service failed", "error", errors.New("no\nway"), "wait", 5*time.Second, slog.Group("h", "n", 1))
	log.WithGroup("g").With("a", 1).Info("grouped", "empty", "", "quoted", `no "x"`)
	want := `> WRN service failed instance=job/1 g.error="no\nway" g.wait=5s g.h.n=1
> grouped g.a=1 g.empty="" g.quoted="no \"x\""
`
	if got := untimed(&out); got != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, got)
	}
}

func TestStyleMarksOnlyOnTerminals(t *testing.T) {
	t.Parallel()
	if IsTerminal(&bytes.Buffer{}) {
		t.Error("expected a buffer to be no terminal")
	}
	var out bytes.Buffer
	NewHandler(&out, Style{on: true}, "").Committed(t.Context(), durable.Committed{Transitions: []instances.Transition{{From: []string{"x"}, To: []string{"y"}}}})
	if want := "x → \x1b[32my\x1b[0m"; !strings.Contains(out.String(), want) {
		t.Errorf("expected %q in %q", want, out.String())
	}
}

func TestSpanHasTheTwoLargestUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 850*time.Millisecond + 400: "850ms", 12900 * time.Millisecond: "12s", 61 * time.Second: "1m01s",
		24*time.Hour - time.Second: "23h59m", 25 * time.Hour: "25h00m", 49 * time.Hour: "2d01h", -time.Minute: "-1m00s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: expected %s, got %s", d, want, got)
		}
	}
}

func TestBriefOmitsRedundantStates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := NewHandler(&out, Style{}, "> ").Brief()
	for _, change := range [][2][]string{
		{{"new"}, {"unverified.registering"}},
		{{"unverified.registering"}, {"unverified.waiting"}},
		{{"unverified.waiting"}, {"active"}},
		{{"a.b"}, {"a.c.d"}},
		{{"a.x", "b.x"}, {"a.x", "b.y"}},
		{{"a.x", "b.x"}, {"a.y", "b.y"}},
		{{"a.x", "b.x"}, {"a.y", "b.y.z"}},
		{{"a.x", "b.x"}, {"b.x"}},
		{{"a.x", "b.x"}, {"a.x", "b.x"}},
	} {
		handler.Committed(t.Context(), durable.Committed{Instance: "a/1", Transitions: []instances.Transition{{Event: "E", From: change[0], To: change[1]}}})
	}
	want := `> a/1                 E              new → unverified.registering
> a/1                 E              unverified.registering → waiting
> a/1                 E              unverified.waiting → active
> a/1                 E              a.b → a.c.d
> a/1                 E              b.x → y
> a/1                 E              a.x → y, b.x → y
> a/1                 E              a.x, b.x → a.y, b.y.z
> a/1                 E              a.x, b.x → b.x
> a/1                 E              stays in a.x, b.x
`
	if got := untimed(&out); got != want {
		t.Errorf("expected:\n%s\ngot:\n%s", want, got)
	}
}
