package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/recording"
)

type recordCommand struct {
	Logs []string `arg:"" name:"log" help:"The logs of the consumer, in the forms that aws logs and an export to S3 give, also compressed with gzip. - is standard input."`
}

// Run writes a recording of the commits in the logs to standard output.
func (c *recordCommand) Run(s *session) error {
	known, err := s.machines()
	if err != nil {
		return err
	}
	var assembly recording.Assembly
	if err := eachIn(s, c.Logs, recording.Read, s.newProgress("commit read", "commits read"), assembly.Add); err != nil {
		return err
	}
	runs, err := assembly.Runs()
	if err != nil {
		return wrongFile(err)
	}
	if assembly.Instances() == 0 {
		return fmt.Errorf("%w: expected a log with recorded commits, got none: set SETTLE_RECORD on the consumer, or use settle dev --record", errUsage)
	}
	return writeRuns(s, known, runs)
}

// writeRuns plays the runs on this build and writes them with their outcomes. It omits a run whose replay differs from
// the consumer's commits.
func writeRuns(s *session, known *durable.Machines, runs []recording.Run) error {
	out, err := recording.NewWriter(escaping{s.Out})
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	written, steps, left := 0, 0, map[string]int{}
	for _, run := range runs {
		if err := run.Play(known, 0); err != nil {
			left[oneLine(err)]++
			continue
		}
		if err := out.Add(run); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
		written, steps = written+1, steps+len(run.Steps)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		s.note("%s: %s left out: %s", s.name(), counted(left[reason], "run", "runs"), reason)
	}
	s.note("%s recorded, with %s.", counted(written, "run", "runs"), counted(steps, "step", "steps"))
	if written == 0 {
		return errors.New("nothing to replay: record for longer, with the build that is deployed")
	}
	return nil
}

// escaping escapes the control characters in lines of JSON.
type escaping struct{ out io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	_, err := io.WriteString(e.out, console.EscapeJSON(string(line)))
	return len(line), err
}

// eachIn reads each file with `read`, and passes each value to `add`.
func eachIn[T any](s *session, names []string, read func(io.Reader) iter.Seq2[T, error], progress *progress, add func(T) error) error {
	defer progress.end()
	for _, name := range names {
		err := s.readFile(name, func(file io.Reader) error {
			for value, err := range read(file) {
				if err == nil {
					err = add(value)
				}
				if err != nil {
					return err
				}
				progress.add()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readFile calls `read` with the named file. The name "-" means standard input. An error in the content counts as wrong
// usage.
func (s *session) readFile(name string, read func(file io.Reader) error) error {
	file := io.NopCloser(s.In)
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotFound, err)
		}
		file = opened
	}
	defer file.Close()
	if err := read(file); err != nil {
		return wrongFile(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// wrongFile returns the error of a file. It counts as wrong usage if the file has the wrong format.
func wrongFile(err error) error {
	if errors.Is(err, recording.ErrFormat) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

// recorded returns a function that calls `committed` and appends the commit to the file of dev --record. Without
// --record, it returns `committed`. Call `stop` after the last commit.
func (c *devCommand) recorded(committed func(context.Context, durable.Committed)) (both func(context.Context, durable.Committed), stop func(), err error) {
	if c.Record == "" {
		return committed, func() {}, nil
	}
	file, err := os.OpenFile(c.Record, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	recorder, err := recording.New(slog.New(slog.NewJSONHandler(file, nil)), recording.Config{Share: 1})
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return func(ctx context.Context, commit durable.Committed) {
		committed(ctx, commit)
		recorder.Committed(ctx, commit)
	}, func() { _ = file.Close() }, nil // Each line is already written.
}
