package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// Forgotten describes the erasure of an instance. It contains no data of the instance.
type Forgotten struct {
	Instance string `json:"instance"`
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
	DryRun   bool   `json:"dry_run,omitempty"`
	// Revision is the revision of the empty item. DynamoDB deletes the item after ExpireAt.
	Revision int64     `json:"revision"`
	ExpireAt time.Time `json:"expire_at"`
	// Children are the names of all descendants, which are forgotten too.
	Children []string `json:"children"`
	// Aliases, EventIDs and Sends count deleted items. Parked counts messages deleted from dead-letter queues.
	Aliases  int `json:"aliases"`
	EventIDs int `json:"event_ids"`
	Sends    int `json:"sends"`
	Parked   int `json:"parked"`
	// ReadUnits are the read units that the command consumed to find the data.
	ReadUnits int64 `json:"read_units"`
	// Copies are the places where copies of the data remain.
	Copies []Copy `json:"copies"`
}

// Copy is a place with a copy of an instance's data.
type Copy struct {
	Place string `json:"place"`
	// Kept says how long the copy stays there.
	Kept string `json:"kept"`
}

// Copies returns the places that keep data of a forgotten instance. docs/security.md has the same table.
func Copies() []Copy {
	return []Copy{
		{"messages in the queues", "14 days at most, until they are consumed"},
		{"pending timers in EventBridge Scheduler: only the instance's name", "until each has fired once"},
		{"postponed messages with the output of a child or a workflow", "an hour at most"},
		{"dead-letter queue of uploads", "14 days"},
		{"point-in-time recovery of the table", "35 days"},
		{"on-demand backups, exports and recordings", "until you delete them"},
		{"stream of the table, if enabled", "24 hours"},
		{"logs: names, and data with SETTLE_LOG_PAYLOADS=on or SETTLE_RECORD", "30 days in the template"},
		{"traces: names", "30 days"},
		{"executions of workflows: input, output and history", "90 days after their end"},
		{"other instances that received data of the instance, such as its parent", "until you forget them"},
		{"your consumers of events, streams and logs", "you decide"},
	}
}

// CopiesText returns the copies as text, one a line. It returns "" if there are no copies.
func CopiesText(style console.Style, copies []Copy) string {
	if len(copies) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Copies may remain in:\n")
	for _, c := range copies {
		fmt.Fprintf(&b, "%s", style.Fold(fmt.Sprintf("  %s (%s)\n", c.Place, c.Kept)))
	}
	return b.String()
}

// Text returns the erasure as text, one fact a line.
func (f Forgotten) Text(style console.Style, now time.Time) string {
	var b strings.Builder
	done := fmt.Sprintf("done, revision %d", f.Revision)
	if f.DryRun {
		done = "dry run, nothing was erased"
	}
	fmt.Fprintf(&b, "forget of %s: %s\n", style.Bold(escaped(f.Instance)), done)
	row := func(label, value string) { b.WriteString(style.Fold(labelled(style, label, value))) }
	for _, child := range f.Children {
		row("child", escaped(child))
	}
	row("erased", fmt.Sprintf("aliases: %d, event IDs: %d, sends: %d, parked messages: %d", f.Aliases, f.EventIDs, f.Sends, f.Parked))
	row("expires", fmt.Sprintf("%s (%s): until then, an empty item receives late messages", f.ExpireAt.In(now.Location()).Format(timeFormat), ago(f.ExpireAt, now)))
	row("read", fmt.Sprintf("%d read units", f.ReadUnits))
	b.WriteString(CopiesText(style, f.Copies))
	return b.String()
}
