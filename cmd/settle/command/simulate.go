package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

type simulateCommand struct {
	File       string                         `arg:"" name:"machine|file" placeholder:"FILE" help:"A machine, such as signup, or a file with an XState v5 machine config in JSON, such as ./signup.json."`
	Guard      map[string]bool                `mapsep:"none" placeholder:"NAME=true|false" help:"The result of a guard. Guards that are not named return true."`
	Delay      map[string]simulation.Duration `mapsep:"none" placeholder:"NAME=5m" help:"The length of a named delay: a duration, or milliseconds."`
	Clock      simulation.Duration            `default:"0s" placeholder:"DURATION" help:"How much virtual time passes after the start and after each event (none)."`
	Start      time.Time                      `default:"${simulation_epoch}" placeholder:"TIME" help:"When the simulation begins, in virtual time (${default})."`
	Input      json.RawMessage                `placeholder:"JSON" help:"The input of the instance, printed with the start."`
	Microsteps bool                           `help:"Show each microstep too."`
}

// Run simulates the lines of standard input as they arrive.
func (c *simulateCommand) Run(ctx context.Context, s *session) error {
	if c.Input != nil && !json.Valid(c.Input) {
		return fmt.Errorf("%w: --input: expected JSON, got %.80q", errUsage, c.Input)
	}
	machine, err := c.machine(s)
	if err != nil {
		return err
	}
	config := simulation.Config{Guards: c.Guard, Delays: c.Delay, Start: c.Start, Clock: c.Clock, Input: c.Input, Microsteps: c.Microsteps}
	running, err := simulation.New(machine, config, func(step simulation.Step) error { return s.printLine(step) })
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if err := running.Start(); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	return eachLine(ctx, s.In, func(line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		return running.Send(line)
	})
}

// machine returns the config to simulate. If the argument is a path, it names a file. Otherwise, it names a machine, or
// a file if no machine has this ID.
func (c *simulateCommand) machine(s *session) ([]byte, error) {
	if isPath(c.File) {
		return c.read()
	}
	known, err := s.machines()
	if err != nil {
		return nil, err
	}
	machine, unknown := known.Lookup(c.File)
	if unknown == nil {
		return s.writeXState(machine)
	}
	if info, err := os.Stat(c.File); err != nil || info.IsDir() {
		return nil, fmt.Errorf("%w; there is no file %q either", unknown, c.File)
	}
	return c.read()
}

// isPath reports whether an argument can only be a file: it contains a folder, begins with a dot, or ends with .json.
func isPath(name string) bool {
	return strings.HasPrefix(name, ".") || filepath.Base(name) != name || filepath.Ext(name) == ".json"
}

// read reads the file.
func (c *simulateCommand) read() ([]byte, error) {
	file, err := os.Open(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: expected a machine, such as signup, or a file, got %q, which is no file", errNotFound, c.File)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil, cmp.Or(err, fmt.Errorf("%w: expected a machine, such as signup, or a file, got the folder %q", errUsage, c.File))
	}
	return io.ReadAll(io.LimitReader(file, xstatejson.DocumentBytesMax+1)) // xstatejson.Read checks the limit.
}

// eachLine calls fn with each line of the input as it arrives, until fn fails or ctx ends. Errors contain the line
// number.
func eachLine(ctx context.Context, in io.Reader, fn func([]byte) error) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, producer.EventBytesMax+len("\r\n"))
	for number := 1; ; number++ {
		more, err := until(ctx, func() (bool, error) { return scanner.Scan(), scanner.Err() })
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // A cancelled read is not an error of the input.
		case err == nil && !more:
			return nil
		case errors.Is(err, bufio.ErrTooLong):
			err = fmt.Errorf("%w: expected a line of at most %d bytes", errRefused, producer.EventBytesMax)
		case err == nil:
			err = fn(scanner.Bytes())
		}
		if err != nil {
			return fmt.Errorf("standard input, line %d: %w", number, err)
		}
	}
}
