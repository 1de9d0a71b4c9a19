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

// end is the last line of a recording. It shows that no run is missing.
type end struct {
	Runs *int `json:"settle_recording_runs"`
}

// A Writer writes a recording: a line for each run, between a first line with the format and a last line with the number
// of runs.
type Writer struct {
	out  io.Writer
	runs int
}

// NewWriter writes the first line of a recording. The caller must call Close.
func NewWriter(out io.Writer) (*Writer, error) {
	w := &Writer{out: out}
	return w, w.line(header{format})
}

// Add writes a run.
func (w *Writer) Add(run Run) error {
	w.runs++
	return w.line(run)
}

// Close writes the last line. It does not close the output.
func (w *Writer) Close() error { return w.line(end{&w.runs}) }

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
			run, isLast, err := readRun(line, number-2)
			if err == nil && isLast {
				if _, err = lines.ReadByte(); errors.Is(err, io.EOF) {
					return
				}
				err = errors.Join(err, errors.New("expected the end of the recording, got another line"))
			}
			if err != nil {
				yield(run, fmt.Errorf("%w: line %d: %w", ErrFormat, number, err))
				return
			}
			if !yield(run, nil) {
				return
			}
		}
	}
}

// readRun reads a run, or the last line of a recording that has `before` runs.
func readRun(line []byte, before int) (run Run, isLast bool, err error) {
	if len(line) == 0 {
		return run, false, errors.New("expected another run, or a last line with the number of runs, got the end of the file: it is cut off")
	}
	var last end
	if json.Unmarshal(line, &last) == nil && last.Runs != nil {
		if *last.Runs != before {
			return run, false, fmt.Errorf("expected a last line with the number %d, got %d: runs are missing", before, *last.Runs)
		}
		return run, true, nil
	}
	if err := json.Unmarshal(line, &run); err != nil {
		return run, false, fmt.Errorf("expected a complete run of an instance, got one that is cut off or damaged: %w", err)
	}
	return run, false, nil
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
