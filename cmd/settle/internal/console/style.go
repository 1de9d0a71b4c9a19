// Package console shows people what happens: a slog.Handler that prints transitions as lines
// to read, the few styles that the command line uses, and how long lines are folded.
package console

// Style marks text for a terminal, and knows how wide that is. The zero value marks nothing and folds nothing.
type Style struct {
	on      bool
	columns int
}

// NewStyle returns a style that marks, if color is true, and folds lines at so many columns, if that is not 0.
func NewStyle(color bool, columns int) Style { return Style{on: color, columns: columns} }

// Columns returns how wide the terminal is; 0 if that is not known.
func (s Style) Columns() int { return s.columns }

// Fold is Fold for a text of lines.
func (s Style) Fold(text string) string { return Fold(text, s.columns) }

// FoldWords is FoldWords for a text of lines.
func (s Style) FoldWords(text string) string { return FoldWords(text, s.columns) }

// Bold is for what a text is about.
func (s Style) Bold(text string) string { return s.mark("1", text) }

// Dim is for what may be skipped in reading.
func (s Style) Dim(text string) string { return s.mark("2", text) }

// State is for the states of an instance.
func (s Style) State(text string) string { return s.mark("32", text) }

// Warning is for what should not be skipped.
func (s Style) Warning(text string) string { return s.mark("33", text) }

func (s Style) mark(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
