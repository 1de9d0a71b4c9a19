// Package console prints for people: a slog.Handler for transitions, the text styles of the command line, and the
// folding of lines.
package console

// Style marks text for a terminal of a certain width. The zero value neither marks nor folds.
type Style struct {
	on      bool
	columns int
}

// NewStyle returns a style. It marks text if color is true, and folds lines if columns is not 0.
func NewStyle(color bool, columns int) Style { return Style{on: color, columns: columns} }

// Columns returns the width of the terminal, or 0 if unknown.
func (s Style) Columns() int { return s.columns }

// Fold calls Fold with the style's width.
func (s Style) Fold(text string) string { return Fold(text, s.columns) }

// FoldWords calls FoldWords with the style's width.
func (s Style) FoldWords(text string) string { return FoldWords(text, s.columns) }

// Bold marks the subject of a text.
func (s Style) Bold(text string) string { return s.mark("1", text) }

// Dim marks less important text.
func (s Style) Dim(text string) string { return s.mark("2", text) }

// State marks the states of an instance.
func (s Style) State(text string) string { return s.mark("32", text) }

// Warning marks text that should stand out.
func (s Style) Warning(text string) string { return s.mark("33", text) }

func (s Style) mark(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
