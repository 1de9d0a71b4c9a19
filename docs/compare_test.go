package docs_test

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var uuidPattern = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// unstable lists the parts of the output that differ from run to run, with the name that replaces each.
var unstable = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{uuidPattern, "UUID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?UTC|Z)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\b`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d{3}\b`), "TIME"},
	{regexp.MustCompile(`\b((\d+(\.\d+)?(h|ms|m|s|µs|d))+ ago|just now)`), "AGO"},
	{regexp.MustCompile(`\bin (\d+(h|m|s|ms|d))+\b`), "IN"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s ahead\b`), "AHEAD"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b|-[0-9a-f]{16}\.zip\b`), "HASH"},
	{regexp.MustCompile(`--checksum-sha256 [0-9A-Za-z+/]{43}=`), "CHECKSUM"},
	{regexp.MustCompile(`\b1\d{18,}\b`), "SEQUENCE"},
	{regexp.MustCompile(`\bdemo-runner-[0-9a-f]{12}\b`), "RUNNER"},
	{regexp.MustCompile(`secret [A-Z2-7]{20,}`), "SECRET"},
	{regexp.MustCompile(`\bcode=\d+\b`), "CODE"},
	{regexp.MustCompile(`\brevision("?[: ]+)\d+\b`), "REVISION"}, // Clearing the outbox raises it again, after the event.
	{regexp.MustCompile(`^(ok\s+\S+\s+)(\d+\.\d+s|\(cached\))`), "${1}PASSED"},
	{regexp.MustCompile(`\(\d+\.\d\ds\)|\bafter \d+\.\d s`), "TOOK"},
	{regexp.MustCompile(`(webhooks/\w+/[^/ ]+)/\d+/[\w-]{43}`), "${1}/ADDRESS"},
	{regexp.MustCompile(`\s+`), " "},
}

// shown returns printed text as the page shows it, with the page's addresses and folder instead of the real ones.
func (s *session) shown(text string) string {
	return strings.NewReplacer("AWS_ENDPOINT_URL=http://"+s.aws+" ", "", s.aws, shownAWS, s.gateway, shownGateway, s.folder, "~/settle").Replace(text)
}

// waitPattern finds the options of a command that waits for an event to be applied: --wait and --timeout.
var waitPattern = regexp.MustCompile(`( --wait \w+)(?: --timeout \w+)?`)

// typed returns the command of a page as the test types it. The command builds modules with -trimpath, as all other
// builds do, so that shared packages are compiled once. A command that waits gets an hour, because this machine may be
// busy.
func (s *session) typed(text string) string {
	text = waitPattern.ReplaceAllString(text, "$1 --timeout 1h")
	text = strings.NewReplacer(shownAWS, s.aws, shownGateway, s.gateway, "export GOFLAGS=-mod=mod", "export GOFLAGS='-mod=mod -trimpath'").Replace(text)
	return uuidPattern.ReplaceAllStringFunc(text, func(id string) string { return cmp.Or(s.ids[id], id) })
}

// learn records which printed ID each ID on the page stands for.
func (s *session) learn(want, got []string) {
	for _, line := range want {
		for _, printed := range got {
			if s.pattern(printed) != s.pattern(line) {
				continue
			}
			ids := uuidPattern.FindAllString(printed, -1)
			for i, id := range uuidPattern.FindAllString(line, -1) {
				s.ids[id] = ids[i]
			}
			break
		}
	}
}

// pattern returns a line with its unstable parts replaced by their names.
func (s *session) pattern(line string) string {
	line = s.shown(line)
	for _, u := range unstable {
		line = u.pattern.ReplaceAllString(line, u.name)
	}
	return strings.TrimRight(line, " ")
}

// patterns returns the patterns of lines, without empty lines at the end.
func (s *session) patterns(lines []string) []string {
	var patterns []string
	for _, line := range lines {
		patterns = append(patterns, s.pattern(line))
	}
	for len(patterns) > 0 && patterns[len(patterns)-1] == "" {
		patterns = patterns[:len(patterns)-1]
	}
	return patterns
}

// matches reports whether the lines match the wanted lines. "..." stands for any lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] != "..." {
		return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
	}
	for i := range len(got) + 1 {
		if matches(want[1:], got[i:]) {
			return true
		}
	}
	return false
}

// apply applies a diff to a text. Each hunk begins with "@@", and its lines must occur once in the text.
func apply(text, diff string) (string, error) {
	hunks := strings.Split("\n"+diff, "\n@@")
	for _, hunk := range hunks[1:] {
		var before, after strings.Builder
		_, hunk, _ = strings.Cut(hunk, "\n")
		for line := range strings.Lines(strings.TrimSuffix(hunk, "\n") + "\n") {
			switch line[0] {
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			case ' ', '\n':
				before.WriteString(strings.TrimPrefix(line, " "))
				after.WriteString(strings.TrimPrefix(line, " "))
			default:
				return "", fmt.Errorf("expected a line of a diff, got %q", line)
			}
		}
		if n := strings.Count(text, before.String()); n != 1 {
			return "", fmt.Errorf("expected these lines once in the file, got them %d times:\n%s", n, before.String())
		}
		text = strings.Replace(text, before.String(), after.String(), 1)
	}
	if len(hunks) < 2 {
		return "", errors.New("expected a diff with a line @@, got none")
	}
	return text, nil
}

func TestOutputIsComparedByPatterns(t *testing.T) {
	t.Parallel()
	s := &session{aws: "127.0.0.1:40001", gateway: "127.0.0.1:40002", folder: "/tmp/x"}
	for _, test := range []struct {
		want, got string
		same      bool
	}{
		{"sent A to a/1 as message 088712be-8a58-4fca-90f5-647d2380309d", "sent A to a/1 as message 6aa9d614-35db-463e-875b-9307abf55005", true},
		{"sent A to a/1 as message 088712be-8a58-4fca-90f5-647d2380309d", "sent A to a/2 as message 6aa9d614-35db-463e-875b-9307abf55005", false},
		{"since  2026-11-20 17:19:34 UTC (8s ago)", "since 2027-01-02 03:04:05 UTC (1m12s ago)", true},
		{"since  2026-11-20 17:19:34 UTC (8s ago)", "since 2027-01-02 03:04:05 UTC", false},
		{"curl http://127.0.0.1:7388/x", "curl http://127.0.0.1:40002/x", true},
		{"curl http://127.0.0.1:7388/x", "curl http://127.0.0.1:40001/x", false},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...\nd", "a\nb\nc", false},
		{"a\n...", "a", true},
		{"a", "a\nb", false},
	} {
		if got := matches(s.patterns(strings.Split(test.want, "\n")), s.patterns(strings.Split(test.got, "\n"))); got != test.same {
			t.Errorf("%q and %q: expected same %v, got %v", test.want, test.got, test.same, got)
		}
	}
}

func TestIDsMayBeTypedAsThePageShowsThem(t *testing.T) {
	t.Parallel()
	const shown, other, printed = "6aa9d614-35db-463e-875b-9307abf55005", "5de186dc-ba77-4207-8084-75f02ee37363", "088712be-8a58-4fca-90f5-647d2380309d"
	s := &session{aws: "127.0.0.1:40001", gateway: "127.0.0.1:40002", folder: "/tmp/x", ids: map[string]string{}}
	s.learn([]string{"ID  SINCE", shown + "  5s ago"}, []string{"ID  SINCE", other + "  a", printed + "  1m ago"})
	if got, want := s.typed("show "+shown+" "+other+" http://127.0.0.1:7389"), "show "+printed+" "+other+" http://127.0.0.1:40001"; got != want {
		t.Errorf("expected %q, got %q", want, got)
	}
}

func TestDiffsAreApplied(t *testing.T) {
	t.Parallel()
	got, err := apply("a\nb\nc\nd\n", "@@ the middle\n b\n+new\n-c\n@@\n d\n+end\n")
	if want := "a\nb\nnew\nd\nend\n"; err != nil || got != want {
		t.Errorf("expected %q, got %q and %v", want, got, err)
	}
	for _, diff := range []string{"@@\n-x\n", "@@\n-a\n", "+y\n", "@@\nx\n"} {
		if got, err := apply("a\na\n", diff); err == nil {
			t.Errorf("%q: expected an error, got %q", diff, got)
		}
	}
}
