package tour

import (
	"io"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// columnsMax is the maximum width of the tour.
const columnsMax = 100

// page is a writer that folds lines. Each write must consist of whole lines.
type page struct {
	io.Writer
	columns int
}

// Write writes whole lines, folded.
func (p page) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, console.Fold(string(text), p.columns)); err != nil {
		return 0, err
	}
	return len(text), nil
}
