package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/settle-run/settle/runtime/internal/plainjson"
)

// header is the first line of a recording.
type header struct {
	Format int `json:"settle_recording"`
}

// A Writer writes a recording: a line for each run, after a first line with the format.
type Writer struct{ out io.Writer }

// NewWriter writes the first line of a recording.
func NewWriter(out io.Writer) (*Writer, error) {
	w := &Writer{out}
	return w, w.line(header{format})
}

// Add writes a run.
func (w *Writer) Add(run Run) error { return w.line(run) }

func (w *Writer) line(value any) error {
	text, err := plainjson.Marshal(value)
	if err == nil {
		_, err = w.out.Write(append(text, '\n'))
	}
	return err
}

// Runs yields the runs of a recording, which may be compressed with gzip. It reads one run at a time. Its errors wrap
// ErrFormat if the file is not a complete recording.
func Runs(file io.Reader) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		lines, err := unzipped(file)
		if err != nil {
			yield(Run{}, err)
			return
		}
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) && len(line) == 0 && number > 1 {
				return
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Run{}, fmt.Errorf("after line %d: %w", number, err))
				return
			}
			if number == 1 {
				if err = readHeader(line); err == nil {
					continue
				}
				yield(Run{}, err)
				return
			}
			var run Run
			if err := json.Unmarshal(line, &run); err != nil {
				yield(run, fmt.Errorf("%w: line %d: expected a complete run of an instance, got one that is cut off or damaged: %w", ErrFormat, number, err))
				return
			}
			if !yield(run, nil) {
				return
			}
		}
	}
}

// readHeader checks the first line of a recording.
func readHeader(line []byte) error {
	var first header
	if json.Unmarshal(line, &first) != nil || first.Format == 0 {
		return fmt.Errorf("%w: expected a recording of settle record, got another file", ErrFormat)
	}
	if first.Format != format {
		return fmt.Errorf("%w: expected a recording in the format %d, got the format %d: record it again with this version of settle", ErrFormat, format, first.Format)
	}
	return nil
}
