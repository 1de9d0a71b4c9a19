package statechart

import (
	"cmp"
	"errors"
	"fmt"
)

// UnreadableError is an ErrUnreadable with its cause and its remedy.
type UnreadableError struct {
	Of   string // the reader of the snapshot, such as "chart signup", or ""
	Err  error  // the cause
	Todo string // the remedy; empty if the snapshot is damaged, so that no version and no migration can help
}

// Remedies that several errors share.
const (
	repairSnapshot = "repair it, or restore it from a backup"
	fixMigration   = "fix the migration"
)

func (e *UnreadableError) Error() string {
	of := ""
	if e.Of != "" {
		of = " of " + e.Of
	}
	return fmt.Sprintf("%v%s: %v; %s", ErrUnreadable, of, e.Err, cmp.Or(e.Todo, repairSnapshot))
}

func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Err} }

// unreadable returns the error for a damaged snapshot.
func (c *chart) unreadable(format string, args ...any) error { return c.refused("", format, args...) }

// refused returns the error for a snapshot that this version cannot read, with its remedy.
func (c *chart) refused(todo, format string, args ...any) error {
	return &UnreadableError{Of: "chart " + c.id, Err: fmt.Errorf(format, args...), Todo: todo}
}

// misfitError is the error for a snapshot that another version of the chart may have stored. `change` names the
// migration change that could convert the snapshot. The method advise turns the error into an UnreadableError.
type misfitError struct {
	error
	change string
}

// unmatched returns a misfitError.
func (c *chart) unmatched(change, format string, args ...any) error {
	return misfitError{fmt.Errorf(format, args...), change}
}

// advise turns a misfitError into an UnreadableError with a remedy. It returns any other error unchanged. `stored` is
// the version that stored the snapshot.
func (c *chart) advise(err error, stored int) error {
	var unfit misfitError
	if !errors.As(err, &unfit) {
		return err
	}
	todo := fmt.Sprintf("add %s, or host version %d too", unfit.change, stored)
	if stored == c.version {
		todo = "raise Version, and " + todo
	}
	return c.refused(todo, "%w", unfit.error)
}
