package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
	"github.com/settle-run/settle/runtime/instances"
)

// Migrations counts instances that would migrate. The zero value is empty.
type Migrations struct {
	// Broken counts instances that no version can read.
	Broken int

	rows map[migrationKey]*MigrationRow
}

type migrationKey struct {
	machine  string
	from, to int
	state    string
}

// MigrationRow counts the instances of one machine and state that would migrate from one version to another.
type MigrationRow struct {
	Machine string   `json:"machine"`
	From    int      `json:"from"`
	To      int      `json:"to"`
	State   []string `json:"state"`
	Count   int      `json:"count"`
	// Example is the first of these instances. Changes has the first changes of the example's snapshot.
	Example string   `json:"example"`
	Changes []Change `json:"changes"`
	// More is the number of further changes of the example, which Changes omits.
	More int `json:"more,omitempty"`
}

// Change is a difference between a snapshot before and after its migration.
type Change struct {
	// Path has the JSON keys that lead to the value, joined with dots.
	Path string `json:"path"`
	// Before and After are nil if there is no value.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

const changesMax = 5

// Add counts an instance. `migrated` is the instance's migrated snapshot.
func (m *Migrations) Add(record instances.Record, from, to int, migrated json.RawMessage) error {
	key := migrationKey{record.Instance.Machine, from, to, strings.Join(record.State, ", ")}
	if row := m.rows[key]; row != nil {
		row.Count++
		return nil
	}
	var before, after map[string]any
	if err := exactjson.Unmarshal(record.Snapshot, &before); err != nil {
		return err
	}
	if err := exactjson.Unmarshal(migrated, &after); err != nil {
		return err
	}
	delete(before, "version") // The row shows the versions.
	delete(after, "version")
	changes := compare(nil, "", before, after)
	row := &MigrationRow{Machine: key.machine, From: from, To: to, State: append([]string{}, record.State...), Count: 1, Example: record.Instance.String(), Changes: []Change{}}
	row.Changes = append(row.Changes, changes[:min(len(changes), changesMax)]...)
	row.More = len(changes) - len(row.Changes)
	if m.rows == nil {
		m.rows = map[migrationKey]*MigrationRow{}
	}
	m.rows[key] = row
	return nil
}

// compare appends the differences to `changes`, ordered by key. It compares each list as a whole.
func compare(changes []Change, path string, before, after any) []Change {
	old, wasObject := before.(map[string]any)
	young, isObject := after.(map[string]any)
	if !wasObject || !isObject {
		if !exactjson.Equal(before, after) {
			changes = append(changes, Change{path, before, after})
		}
		return changes
	}
	keys := slices.Concat(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(young)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		changes = compare(changes, strings.TrimPrefix(path+"."+key, "."), old[key], young[key])
	}
	return changes
}

// Rows returns the counts, ordered by machine, versions and state.
func (m *Migrations) Rows() []MigrationRow {
	rows := []MigrationRow{}
	for _, key := range slices.SortedFunc(maps.Keys(m.rows), func(a, b migrationKey) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.state, b.state))
	}) {
		rows = append(rows, *m.rows[key])
	}
	return rows
}

// Write writes the counts as a table, and the example of each row below it.
func (m *Migrations) Write(w io.Writer, style console.Style) error {
	rows := m.Rows()
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No instance would migrate.")
		return err
	}
	table := NewTable(style, "MACHINE", "FROM", "TO", "STATE", "COUNT")
	for _, row := range rows {
		table.Add(Bold(row.Machine), Plain(fmt.Sprint(row.From)), Plain(fmt.Sprint(row.To)), State(strings.Join(row.State, ", ")), Plain(fmt.Sprint(row.Count)))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%s, from version %d to %d\n", style.Bold(escaped(row.Example)), row.From, row.To)
		if len(row.Changes) == 0 {
			b.WriteString("  only the version changes\n")
		}
		for _, change := range row.Changes {
			fmt.Fprintf(&b, "  %s: %s → %s\n", escaped(change.Path), shortJSON(change.Before, shortMax), style.State(shortJSON(change.After, shortMax)))
		}
		if row.More > 0 {
			fmt.Fprintf(&b, "  and %d more\n", row.More)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shortMax limits the runes of a value that shortJSON returns.
const shortMax = 80

// shortJSON returns a value as JSON, truncated to runesMax.
func shortJSON(value any, runesMax int) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if runes := []rune(string(text)); len(runes) > runesMax {
		text = []byte(string(runes[:runesMax]) + "...")
	}
	return escaped(string(text))
}
