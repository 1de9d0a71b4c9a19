package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
)

type graphCommand struct {
	tableFlags
	Machine string `arg:"" optional:"" name:"machine|instance" help:"The machine, such as signup, or an instance, such as signup/42, to mark its state. Omit it to list the machines."`
	Format  string `enum:"mermaid,svg,xstate" default:"mermaid" help:"How to print a chart: mermaid, svg or xstate."`
	Open    bool   `help:"Draw the chart as SVG and open it in the browser."`
	outputFlag
}

// The values of --format.
const (
	formatMermaid = "mermaid"
	formatSVG     = "svg"
	formatXState  = "xstate"
)

// machineRow is a row in the list of machines.
type machineRow struct {
	Machine string   `json:"machine"`
	Version int      `json:"version"`
	Events  []string `json:"events"`
}

// Run prints the chart.
func (c *graphCommand) Run(ctx context.Context, s *session) error {
	switch {
	case c.Machine == "" && c.Open:
		return fmt.Errorf("%w: --open: expected a machine or an instance with it, got none", errUsage)
	case c.Machine == "" && c.Format != formatMermaid:
		return fmt.Errorf("%w: --format: expected a machine or an instance with it, got none", errUsage)
	case c.Open && c.Format == formatXState:
		return fmt.Errorf("%w: --open: expected --format svg with it or none, got xstate", errUsage)
	case c.Machine != "" && c.Output != "auto":
		return fmt.Errorf("%w: -o, or --output, is for the list of machines: expected --format xstate for a chart in JSON, or neither for Mermaid", errUsage)
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	if c.Machine == "" {
		return c.list(s, known)
	}
	machine, marks, err := c.lookup(ctx, s, known)
	if err != nil {
		return err
	}
	switch {
	case c.Open:
		return c.open(s, machine, marks)
	case c.Format == formatSVG:
		drawing, err := s.writeSVG(machine, marks)
		if err != nil {
			return err
		}
		return s.printf("%s", drawing)
	case c.Format == formatXState:
		config, err := s.writeXState(machine)
		if err != nil {
			return err
		}
		return s.printf("%s", config)
	}
	return s.printf("%s", machine.Mermaid(marks.Active...))
}

// lookup returns the machine that the argument names. If the argument names an instance, lookup returns the instance's
// machine. It also returns the instance's states and history, which the diagram marks.
func (c *graphCommand) lookup(ctx context.Context, s *session, known *durable.Machines) (machine durable.Machine, marks chartsvg.Options, err error) {
	if !strings.Contains(c.Machine, "/") {
		machine, err = known.Lookup(c.Machine)
		return machine, marks, err
	}
	record, _, err := c.read(ctx, s, c.Machine)
	if err != nil {
		return nil, marks, err
	}
	machine, instance, err := known.Restore(record)
	if err != nil {
		return nil, marks, err
	}
	marks.Active = instance.State()
	for _, t := range record.History {
		marks.Path = append(marks.Path, chartsvg.Step{Event: t.Event, From: t.From, To: t.To})
	}
	return machine, marks, nil
}

// writeSVG returns a drawing of the machine's chart.
func (s *session) writeSVG(machine durable.Machine, marks chartsvg.Options) ([]byte, error) {
	chart := machine.Outline()
	if chart == nil {
		return nil, fmt.Errorf("machine %q has no drawing: expected a chart of runtime/statechart, got another kind of machine; "+
			"%s prints its diagram", machine.ID(), s.hint("graph", machine.ID(), "--format", formatMermaid))
	}
	return chartsvg.Draw(chart, marks), nil
}

// open draws the chart into a temporary file, opens the file in the browser and prints the file's path.
func (c *graphCommand) open(s *session, machine durable.Machine, marks chartsvg.Options) error {
	drawing, err := s.writeSVG(machine, marks)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "settle-"+machine.ID()+"-*.svg")
	if err != nil {
		return err
	}
	_, err = file.Write(drawing)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := s.show(file.Name()); err != nil {
		return fmt.Errorf("opening the browser: %w; the drawing is in %s", err, file.Name())
	}
	return s.printf("%s\n", file.Name())
}

// show opens a file or an address with the desktop's default program.
func (s *session) show(target string) error {
	if s.Open != nil {
		return s.Open(target)
	}
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", target).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", target).Run()
	}
	return exec.Command("xdg-open", target).Run()
}

// list prints the machines.
func (c *graphCommand) list(s *session, known *durable.Machines) error {
	rows := []machineRow{}
	table := view.NewTable(s.style, "MACHINE", "VERSION", "EVENTS")
	for _, id := range known.IDs() {
		machine, err := known.Lookup(id)
		if err != nil {
			return err
		}
		rows = append(rows, machineRow{id, machine.Version(), machine.Events()})
		table.Add(view.Bold(id), view.Plain(fmt.Sprint(machine.Version())), view.Plain(strings.Join(machine.Events(), ", ")))
	}
	return c.answer(s, rows, func() error { return table.Write(s.Out) })
}
