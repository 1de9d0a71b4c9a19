package console

import (
	"html/template"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
)

// draw returns the chart as SVG. Package chartsvg escapes the text in the chart.
func draw(o *statechart.Outline) template.HTML {
	return template.HTML(chartsvg.Draw(o, chartsvg.Options{Bare: true}))
}

// drawing is the data of the panel with a chart.
type drawing struct {
	Heading string
	Chart   *chart
	// Selection is the machine, with the filters of the list beside the chart.
	Selection selection
	// Counts contains the number of instances in each state, or is nil on the page of an instance.
	Counts map[string]int
}

// Drawing returns the data of the panel with the chart.
func (d *instanceData) Drawing() drawing {
	return drawing{Heading: "Chart", Chart: d.Chart, Selection: selection{Machine: d.Machine}}
}

// Drawing returns the data of the panel with the chart.
func (d *machineData) Drawing() drawing {
	counts := d.Counts.States
	if counts == nil {
		counts = map[string]int{}
	}
	return drawing{Heading: "Instances per state", Chart: d.Chart, Selection: d.selection, Counts: counts}
}

// SVG returns the drawing of the chart.
func (c *chart) SVG() template.HTML { return c.svg }

// Every returns the states in document order, the chart itself first if it has transitions.
func (c *chart) Every() []*chartState {
	if root := c.byPath[""]; len(root.Edges) > 0 {
		return append([]*chartState{root}, c.states...)
	}
	return c.states
}
