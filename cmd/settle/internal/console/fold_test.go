package console

import (
	"strings"
	"testing"
)

func TestLinesAreFoldedAtSpaces(t *testing.T) {
	t.Parallel()
	long := func(s string) string { return strings.Repeat(s, 40) }
	for name, c := range map[string]struct{ line, want string }{
		"a line that fits": {long("a") + "  " + long("b"), long("a") + "  " + long("b")},
		"between fields, below the second one": {
			"   12:00:00.000  told  a=" + long("a") + "  b=" + long("b") + "  c=" + long("c"),
			"   12:00:00.000  told  a=" + long("a") + "\n                 b=" + long("b") + "\n                 c=" + long("c")},
		"between fields, with a distant second one": {
			"   " + long("a") + "  " + long("b") + "  " + long("c"),
			"   " + long("a") + "  " + long("b") + "\n      " + long("c")},
		"before an arrow": {
			"   at  to  " + long("a") + ", " + long("b") + " → cdefghij",
			"   at  to  " + long("a") + ", " + long("b") + "\n           → cdefghij"},
		"not after an arrow": {
			"   at  to  " + long("a") + " → b, " + long("c") + " → def",
			"   at  to  " + long("a") + " → b, " + long("c") + "\n           → def"},
		"not after by": {
			"   at  to  " + long("a") + "  " + long("b") + "  by arn:aws:iam::1:user/ada: x",
			"   at  to  " + long("a") + "  " + long("b") + "\n       by arn:aws:iam::1:user/ada: x"},
		"not after a dim by": {
			"   at  to  " + long("a") + "  " + long("b") + "  \x1b[2mby arn:aws:iam::1:user/ada\x1b[0m",
			"   at  to  " + long("a") + "  " + long("b") + "\n       \x1b[2mby arn:aws:iam::1:user/ada\x1b[0m"},
		"escape sequences have no width": {
			"\x1b[2m" + long("a") + "\x1b[0m  \x1b[1m" + long("b") + "\x1b[0m  \x1b[32mc\x1b[0m",
			"\x1b[2m" + long("a") + "\x1b[0m  \x1b[1m" + long("b") + "\x1b[0m  \x1b[32mc\x1b[0m"},
		"prose, at a space with the same indent": {"   " + long("ab") + " " + long("c"), "   " + long("ab") + "\n   " + long("c")},
		"a field without a comma, at a space":    {"   at  " + long("ab") + " " + long("c"), "   at  " + long("ab") + "\n       " + long("c")},
		"JSON":                                   {`  {"a": "` + long("bb") + `", "c": "` + long("d") + `e"}`, `  {"a": "` + long("bb") + `", "c":` + "\n" + `  "` + long("d") + `e"}`},
		"wide characters take two columns":       {strings.Repeat("界", 49) + " 界", strings.Repeat("界", 49) + "\n界"},
		"nowhere":                                {long("a") + long("b") + long("c"), long("a") + long("b") + long("c")},
	} {
		if got := Fold(c.line+"\n", 100); got != c.want+"\n" {
			t.Errorf("%s: expected\n%s\ngot\n%s", name, c.want, got)
		}
	}
}

func TestProseIsFoldedBelowItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"prose that has commas, arrows and JSON": {`settle: expected {"type": "VERIFY"}, a → b, got 6 bytes`, "settle: expected {\"type\":\n\"VERIFY\"}, a → b, got 6\nbytes"},
		"below itself, after a label":            {"  reason  one, two three four five six seven", "  reason  one, two three\n          four five six\n          seven"},
		"below itself, if indented":              {"    one two three four five six", "    one two three four\n    five six"},
		"escape sequences have no width":         {"\x1b[33mone two three four five\x1b[0m six", "\x1b[33mone two three four five\x1b[0m\nsix"},
		"a word that does not fit":               {"  a  " + strings.Repeat("b", 30), "  a\n     " + strings.Repeat("b", 30)},
	} {
		if got := Fold(c.text+"\n", 25); got != c.want+"\n" {
			t.Errorf("%s: expected\n%s\ngot\n%s", name, c.want, got)
		}
	}
	if text := strings.Repeat("word ", 40); Fold(text, 0) != text {
		t.Error("expected no folding without a width")
	}
}
