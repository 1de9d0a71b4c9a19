package tour

import (
	"io"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// columnsMax is how wide the tour is printed at most.
const columnsMax = 100

// page is a writer that folds what is written to it, which has to be whole lines.
type page struct {
	io.Writer
	columns int
}

// Write writes the lines, folded.
func (p page) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, console.Fold(string(text), p.columns)); err != nil {
		return 0, err
	}
	return len(text), nil
}
