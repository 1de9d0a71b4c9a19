package view

import (
	"fmt"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

// Operation is an operator's change to one instance.
type Operation struct {
	Instance string                  `json:"instance"`
	Kind     instances.OperationKind `json:"operation"`
	By       string                  `json:"by"`
	Reason   string                  `json:"reason,omitempty"`
	DryRun   bool                    `json:"dry_run,omitempty"`
	// Revision is the revision that the change starts from. The commit stores the next revision.
	Revision int64             `json:"revision"`
	State    []string          `json:"state"`
	Status   statechart.Status `json:"status"`
	// Left and Entered are the paths of states. Actions are the names of the chart's actions, in order.
	Left    []string `json:"left,omitempty"`
	Entered []string `json:"entered,omitempty"`
	Actions []string `json:"actions,omitempty"`
	// Effects describes what a consumer will do because of the change.
	Effects []string `json:"effects,omitempty"`
	// Changes are the changes of the snapshot and of the item's attribute `kept`, which is not in the snapshot.
	Changes []Change `json:"changes,omitempty"`
	// MessageID is the message that wakes the instance. It is empty if nothing is left to do.
	MessageID string `json:"message_id,omitempty"`
}

// OperationOf describes a change from one record to the next. `steps` are the microsteps of the change.
func OperationOf(op instances.Operation, before, after instances.Record, steps []statechart.Microstep) (Operation, error) {
	o := Operation{
		Instance: before.Instance.String(), Kind: op.Kind, By: op.By, Reason: op.Reason, Revision: before.Revision,
		State: append([]string{}, after.State...), Status: after.Status,
	}
	for _, step := range steps {
		o.Left, o.Entered, o.Actions = append(o.Left, step.Exited...), append(o.Entered, step.Entered...), append(o.Actions, step.Actions...)
	}
	var old, young map[string]any
	if err := exactjson.Unmarshal(before.Snapshot, &old); err != nil {
		return o, err
	}
	if err := exactjson.Unmarshal(after.Snapshot, &young); err != nil {
		return o, err
	}
	delete(old, "steps")
	delete(young, "steps")
	if before.Kept != after.Kept {
		old["kept"], young["kept"] = before.Kept, after.Kept
	}
	o.Changes = compare(nil, "", old, young)
	effects, tasks := instanceview.OwedBy(before, after)
	for _, effect := range effects {
		o.Effects = append(o.Effects, instanceview.EffectText(effect))
	}
	for _, task := range tasks {
		o.Effects = append(o.Effects, "answer the task "+task)
	}
	return o, nil
}

// Text returns the change as text, one fact a line.
func (o Operation) Text(style console.Style) string {
	var b strings.Builder
	if o.DryRun {
		fmt.Fprintf(&b, "%s of %s: dry run, nothing was changed\n", o.Kind, style.Bold(escaped(o.Instance)))
	} else {
		fmt.Fprintf(&b, "%s of %s: done, revision %d\n", o.Kind, style.Bold(escaped(o.Instance)), o.Revision+1)
	}
	row := func(label string, values []string) {
		b.WriteString(style.Fold(labelled(style, label, escaped(strings.Join(values, ", ")))))
	}
	row("left", o.Left)
	row("entered", o.Entered)
	row("actions", o.Actions)
	for _, effect := range o.Effects {
		row("effect", []string{effect})
	}
	runesMax := shortMax
	if columns := style.Columns(); columns > 0 {
		const around = 17 // the width of the label, an arrow and the dots
		runesMax = max(min(shortMax, columns-around), 1)
	}
	for _, change := range o.Changes {
		b.WriteString(style.Fold(labelled(style, "change", fmt.Sprintf("%s: %s → %s", escaped(change.Path), shortJSON(change.Before, runesMax), style.State(shortJSON(change.After, runesMax))))))
	}
	b.WriteString(style.Fold(labelled(style, "state", fmt.Sprintf("%s, %s", style.State(escaped(strings.Join(o.State, ", "))), o.Status))))
	return b.String()
}
