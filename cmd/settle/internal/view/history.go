package view

import (
	"io"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// WriteHistory writes transitions, one a line, with times in the zone.
func WriteHistory(w io.Writer, style console.Style, history []durable.Transition, zone *time.Location) error {
	if len(history) == 0 {
		return nil
	}
	_, err := io.WriteString(w, historyText(style, history, zone)+"\n")
	return err
}
