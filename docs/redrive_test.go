package docs_test

import (
	"slices"
	"strings"
	"testing"
)

// TestARedriveByHandMayBeRepeated follows "With the aws CLI alone" on the page about parked events, and redrives once too
// early. The event is parked again, and the second redrive must not lose it.
func TestARedriveByHandMayBeRepeated(t *testing.T) {
	t.Parallel()
	const page = "docs/parked-events.md"
	blocks := blocksOf(t, page)
	with := func(words string) int {
		t.Helper()
		i := slices.IndexFunc(blocks, func(b block) bool { return b.isShell() && strings.Contains(b.text, words) })
		if i < 0 {
			t.Fatalf("%s: expected a block with %q", page, words)
		}
		return i
	}
	first, parked, redrive := with("--message-deduplication-id click-1"), with("MessageAttributes.reason"), with("--message-deduplication-id \"redrive-")
	s := newSession(t, false)
	s.play(t, blocks[with("settle dev")])
	for _, b := range blocks[first : parked+1] {
		s.play(t, b)
	}
	commands := commandsOf(blocks[redrive])
	for _, c := range commands[:len(commands)-1] { // The last one shows the instance, which does not exist yet.
		if printed, code, err := s.do(t, c.text); err != nil || code != 0 {
			t.Fatalf("%s: exit code %d, %v\n%s", c.text, code, err, printed)
		}
	}
	for _, b := range blocks[parked : redrive+1] {
		s.play(t, b)
	}
}
